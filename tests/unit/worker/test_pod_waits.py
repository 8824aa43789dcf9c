"""While a pod waits, what it waits for is reported whenever that changes, and that it is over."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster_api import RUNNING, ClusterApi, ignore_pull, launch, refusal
from worker.domain.runtime import RuntimeFailure
from worker.runtimes.kubernetes import pod_starts, pod_watch

QUOTA = (
    'pods "partita-x" is forbidden: exceeded quota: team, requested: pods=1, used: pods=3, '
    "limited: pods=3"
)
UNSCHEDULED: dict[str, Any] = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient cpu.",
        }
    ],
}
BACK_OFF: dict[str, Any] = {
    "phase": "Pending",
    "containerStatuses": [
        {
            "name": "step",
            "state": {"waiting": {"reason": "ErrImagePull", "message": "i/o timeout"}},
        }
    ],
}


class Words(list[str]):
    """What was reported, in order; `said` is set by each."""

    def __init__(self) -> None:
        super().__init__()
        self.said = asyncio.Event()

    async def take(self, sentence: str) -> None:
        self.append(sentence)
        self.said.set()


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_starts, "_TRY_EVERY_S", 0.02)
    monkeypatch.setattr(pod_starts, "_LOOK_AFTER_S", (0.02,))


async def test_a_quota_that_is_short_is_reported_until_it_is_raised(tmp_path: Path) -> None:
    api, words = ClusterApi(), Words()
    for _ in range(5):
        api.refuse("POST", "pods", refusal(403, "Forbidden", QUOTA))
    runtime = api.runtime(tmp_path)

    await runtime.prepare(launch(), pulling=ignore_pull, waiting=words.take)

    assert words == [f"the namespace's quota is used up: {QUOTA}", ""]
    await runtime.close()


async def test_a_pod_without_a_node_says_so_in_the_schedulers_words_and_then_no_more(
    tmp_path: Path,
) -> None:
    api, words = ClusterApi(status=dict(UNSCHEDULED)), Words()
    wanted, runtime = launch(), api.runtime(tmp_path)
    preparing = asyncio.create_task(
        runtime.prepare(wanted, pulling=ignore_pull, waiting=words.take)
    )
    async with asyncio.timeout(10):
        await words.said.wait()

    assert words == ["no node takes the step: 0/3 nodes are available: 3 Insufficient cpu"]
    api.store("pods", {**api.objects["pods"][wanted.name], "status": dict(RUNNING)})
    async with asyncio.timeout(10):
        await preparing
    await runtime.close()


async def test_a_pull_that_fails_for_now_is_reported_beside_the_pull(tmp_path: Path) -> None:
    api, words = ClusterApi(status=dict(BACK_OFF)), Words()
    wanted, runtime = launch(), api.runtime(tmp_path)
    preparing = asyncio.create_task(
        runtime.prepare(wanted, pulling=ignore_pull, waiting=words.take)
    )
    async with asyncio.timeout(10):
        await words.said.wait()
    preparing.cancel()
    await asyncio.gather(preparing, return_exceptions=True)

    assert words == [f"image {wanted.image} could not be pulled: i/o timeout"]
    await runtime.close()


async def test_what_was_waited_for_last_is_the_failure_when_the_time_is_over(
    tmp_path: Path,
) -> None:
    api, words = ClusterApi(status=dict(UNSCHEDULED)), Words()
    runtime = api.runtime(tmp_path, pending_s=2)

    with pytest.raises(RuntimeFailure, match=r"within 2 s: no node takes the step") as failure:
        await runtime.prepare(launch(), pulling=ignore_pull, waiting=words.take)

    assert failure.value.reason == "unschedulable"
    assert len(words) == 1
    await runtime.close()


async def test_a_unit_has_started_once_later_steps_find_its_address(tmp_path: Path) -> None:
    """A busy kubelet reports a program that runs before the address of its pod."""
    unknown = {key: value for key, value in RUNNING.items() if key != "podIP"}
    api = ClusterApi(status=unknown)
    runtime = api.runtime(tmp_path)
    starting = asyncio.create_task(
        runtime.prepare(launch(), pulling=ignore_pull, waiting=Words().take)
    )
    for _ in range(1_000):
        if any(each.url.path.endswith("/events") for each in api.requests):
            break
        await asyncio.sleep(0.01)
    assert not starting.done()

    for pod in api.objects["pods"].values():
        pod["status"] = dict(RUNNING)

    async with asyncio.timeout(10):
        await starting
    await runtime.close()


async def test_a_pod_that_waits_long_is_asked_for_its_events_ever_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_starts, "_LOOK_AFTER_S", (0.01, 0.02, 60.0))
    api, words = ClusterApi(status=dict(BACK_OFF)), Words()
    runtime = api.runtime(tmp_path, pending_s=1.0)

    with pytest.raises(RuntimeFailure):
        await runtime.prepare(launch(), pulling=ignore_pull, waiting=words.take)

    asked = [each for each in api.requests if each.url.path.endswith("/events")]
    assert 1 <= len(asked) <= 2, "one request for each of the two looks"
    await runtime.close()


async def test_many_pods_that_wait_are_read_by_one_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_watch, "_PAUSE_S", 60.0)  # the watch lists once
    api, words = ClusterApi(status=dict(UNSCHEDULED)), Words()
    runtime = api.runtime(tmp_path)
    wanted = [launch(f"api-{number}") for number in range(40)]
    starts = [
        asyncio.create_task(runtime.prepare(each, pulling=ignore_pull, waiting=words.take))
        for each in wanted
    ]
    for _ in range(1_000):
        if len(words) == len(wanted):
            break
        await asyncio.sleep(0.01)
    before = len(_reads_of_pods(api))
    await asyncio.sleep(0.5)  # some twenty looks at each of them
    reads = len(_reads_of_pods(api)) - before
    for start in starts:
        start.cancel()
    await asyncio.gather(*starts, return_exceptions=True)

    assert len(words) == len(wanted)
    assert reads <= pod_watch.READ_ALONE
    await runtime.close()


def _reads_of_pods(api: ClusterApi) -> list[str]:
    paths = [each.url.path for each in api.requests if each.method == "GET"]
    return [path for path in paths if "/pods/" in path]
