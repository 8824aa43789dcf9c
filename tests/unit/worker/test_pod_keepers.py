"""Pods whose keeper ends before its time: what takes its place, and what is lost without."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.cluster_api import RUNNING, ClusterApi, launch, refusal
from worker.domain.runtime import NeverBegan, RuntimeFailure, Unit, UnitState
from worker.runtimes.kubernetes.client import ClusterClient
from worker.runtimes.kubernetes.exec_stream import ExecResult
from worker.runtimes.kubernetes.objects import KEEPER, STEP_CONTAINER
from worker.runtimes.kubernetes.runtime import KubernetesRuntime

Object = dict[str, Any]
DROPPED = "failed to create shim task: context canceled: unknown"


def state(container: str, **fields: Object) -> Object:
    return {"name": container, "state": fields}


def dropped(container: str) -> Object:
    ended = {"exitCode": 128, "reason": "StartError", "message": DROPPED}
    return state(container, terminated=ended)


STEP_RUNS = state(STEP_CONTAINER, running={"startedAt": "2026-01-02T03:04:05Z"})
STEP_HAS_ENDED = state(STEP_CONTAINER, terminated={"exitCode": 3, "reason": "Error"})


class Node(ClusterApi):
    """A node that drops the start of the keeper, and of the first `drops` that are added.

    The step ends once `ends` returns True for the number of its keepers and of its reads.
    `used`: the containers in which programs were run.
    """

    def __init__(self, ends: Callable[[int, int], bool], *, drops: int = 0) -> None:
        super().__init__(status={**RUNNING, "containerStatuses": [STEP_RUNS, dropped(KEEPER)]})
        self.ends = ends
        self.drops = drops
        self.reads = 0
        self.used: list[str] = []

    async def respond(self, request: httpx.Request) -> httpx.Response:
        name = request.url.path.partition("/pods/")[2]
        if request.method == "GET" and name in self.objects.get("pods", {}):
            self.reads += 1
            self._report(name)
        return await super().respond(request)

    def _report(self, name: str) -> None:
        pod = self.objects["pods"][name]
        added = self.added(name)
        keepers = [dropped(each) for each in added[: self.drops]]
        keepers += [state(each, running={}) for each in added[self.drops :]]
        status = {**pod["status"], "ephemeralContainerStatuses": keepers}
        if self.ends(len(added), self.reads):
            status["containerStatuses"] = [STEP_HAS_ENDED, *status["containerStatuses"][1:]]
            status["phase"] = "Running" if len(added) > self.drops else "Failed"
        self.store("pods", {**pod, "status": status})

    def added(self, name: str) -> list[str]:
        spec = self.objects["pods"][name]["spec"]
        return [each["name"] for each in spec.get("ephemeralContainers", ())]

    async def start(self, folder: Path, **options: Any) -> tuple[KubernetesRuntime, Unit]:
        runtime = self.runtime(folder, unavailable_after_s=0.2, **options)
        return runtime, await runtime.start(launch())


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node whose step ends once it has a keeper."""
    node = Node(lambda added, _reads: added > node.drops)

    async def run(
        _self: ClusterClient, _pod: str, container: str, _argv: Sequence[str], **_options: Any
    ) -> ExecResult:
        node.used.append(container)
        return ExecResult(exit_code=0)

    monkeypatch.setattr(ClusterClient, "run", run)
    monkeypatch.setattr("worker.runtimes.kubernetes.pod_watch.READ_EVERY_S", 0.02)
    return node


async def test_a_step_whose_keeper_was_dropped_gets_another_that_takes_its_files(
    at: Node, tmp_path: Path
) -> None:
    runtime, unit = await at.start(tmp_path)
    assert unit.state is UnitState.RUNNING

    assert (await runtime.wait(unit)).exit_code == 3

    spec = at.objects["pods"][unit.name]["spec"]
    [first] = [each for each in spec["containers"] if each["name"] == KEEPER]
    [added] = spec["ephemeralContainers"]
    for key in ("image", "imagePullPolicy", "securityContext", "volumeMounts"):
        assert added[key] == first[key]
    assert "resources" not in added, "a container that is added may have none"
    assert 'trap "" TERM' in added["command"][2], "the pod is told to end with the step"
    assert at.used == [added["name"]] == ["keeper-1"]
    await runtime.close()


async def test_another_keeper_that_is_dropped_is_replaced_as_well(at: Node, tmp_path: Path) -> None:
    at.drops = 2
    runtime, unit = await at.start(tmp_path)

    assert (await runtime.wait(unit)).exit_code == 3

    assert at.added(unit.name) == ["keeper-1", "keeper-2", "keeper-3"]
    assert at.used == ["keeper-3"]
    await runtime.close()


async def test_a_step_gets_a_few_keepers_and_no_more(at: Node, tmp_path: Path) -> None:
    at.drops = 100
    since_fifth = itertools.count()
    at.ends = lambda added, _reads: added >= 5 and next(since_fifth) > 10
    runtime, unit = await at.start(tmp_path)

    with pytest.raises(RuntimeFailure, match="dropped the start"):
        await runtime.wait(unit)

    assert len(at.added(unit.name)) == 5
    await runtime.close()


async def test_a_keeper_that_may_not_be_replaced_is_lost_with_the_files(
    at: Node, tmp_path: Path
) -> None:
    at.refuse("PATCH", "pods", refusal(403, "Forbidden", "pods/ephemeralcontainers is forbidden"))
    at.ends = lambda _added, reads: reads > 5
    runtime, unit = await at.start(tmp_path)

    with pytest.raises(RuntimeFailure, match="dropped the start") as failure:
        await runtime.wait(unit)

    assert failure.value.reason == "node_lost"
    assert at.used == []
    await runtime.close()


async def test_a_keeper_with_a_part_of_a_volume_is_not_replaced(at: Node, tmp_path: Path) -> None:
    at.ends = lambda _added, reads: reads > 5
    runtime, unit = await at.start(tmp_path, claim="shared")

    with pytest.raises(RuntimeFailure, match="dropped the start") as failure:
        await runtime.wait(unit)

    assert failure.value.reason == "node_lost"
    assert at.added(unit.name) == []
    await runtime.close()


async def test_a_step_that_can_only_be_stopped_with_its_pod_has_lost_its_keeper(
    at: Node, tmp_path: Path
) -> None:
    at.ends = lambda _added, _reads: False
    runtime, unit = await at.start(tmp_path, claim="shared")

    with pytest.raises(RuntimeFailure, match="the keeper of the pod ended") as failure:
        await runtime.stop(unit)

    assert failure.value.reason == "node_lost"
    assert at.names("pods") == []
    await runtime.close()


async def test_a_step_that_ended_before_it_had_a_keeper_is_lost_with_its_files(
    at: Node, tmp_path: Path
) -> None:
    at.ends = lambda _added, _reads: True
    runtime, unit = await at.start(tmp_path)

    with pytest.raises(RuntimeFailure, match="dropped the start") as failure:
        await runtime.wait(unit)

    assert failure.value.reason == "node_lost"
    assert at.added(unit.name) == []
    await runtime.close()


async def test_files_that_were_not_taken_from_a_keeper_are_said_to_be_lost(
    at: Node, tmp_path: Path
) -> None:
    killed = state(KEEPER, terminated={"exitCode": 137, "reason": "OOMKilled"})
    at.status = {**RUNNING, "containerStatuses": [STEP_HAS_ENDED, killed]}
    runtime, unit = await at.start(tmp_path)

    with pytest.raises(RuntimeFailure, match="ended before the step's files were taken") as failure:
        await runtime.wait(unit)

    assert failure.value.reason == "node_lost"
    await runtime.close()


async def test_a_dropped_start_that_a_successor_finds_has_never_begun(
    at: Node, tmp_path: Path
) -> None:
    runtime, unit = await at.start(tmp_path)
    pod = at.objects["pods"][unit.name]
    at.store("pods", {**pod, "status": {"phase": "Failed", "containerStatuses": [dropped("step")]}})
    at.ends = lambda _added, _reads: False

    with pytest.raises(NeverBegan, match="dropped the start of the step"):
        await runtime.wait(unit)

    at.status = dict(RUNNING)
    again = await runtime.start(launch())
    assert again.state is UnitState.RUNNING
    assert at.objects["pods"][unit.name]["metadata"]["uid"] != pod["metadata"]["uid"]
    await runtime.close()
