"""Starts that meet pods of others, conflicts and refusals; what they leave behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.cluster_api import RUNNING, ClusterApi, ignore_pull, launch, refusal
from worker.domain.runtime import RuntimeFailure, RuntimeUnavailable, UnitState
from worker.runtimes.kubernetes import keeper, pod_spec
from worker.runtimes.kubernetes.objects import FILLER

DROPPED = "failed to create shim task: context canceled: unknown"
MAY_HAVE_BEGUN = 'failed to start containerd task "38fe8d": context canceled: unknown'
CONFLICT = (
    'Operation cannot be fulfilled on resourcequotas "q": the object has been modified; please '
    "apply your changes to the latest version and try again"
)


async def test_a_pod_of_another_owner_is_refused_and_stays(tmp_path: Path) -> None:
    api, wanted = ClusterApi(), launch()
    about = {"name": wanted.name, "annotations": {**wanted.labels, "partita.installation": "x"}}
    api.store("pods", {"metadata": about, "status": api.status})
    runtime = api.runtime(tmp_path)

    with pytest.raises(RuntimeFailure, match="of another owner exists"):
        await runtime.prepare(wanted, pulling=ignore_pull, waiting=ignore_pull)

    assert api.names("pods") == [wanted.name]
    await runtime.close()


async def test_a_pod_of_another_owner_that_took_the_name_of_a_unit_stays(tmp_path: Path) -> None:
    api = ClusterApi()
    runtime = api.runtime(tmp_path)
    unit = await runtime.start(launch())
    api.store("pods", {"metadata": {"name": unit.name, "annotations": {}}})

    await runtime.remove(unit)

    assert api.names("pods") == [unit.name]
    await runtime.close()


async def test_a_conflict_of_the_quota_is_repeated_until_the_pod_is_there(tmp_path: Path) -> None:
    api = ClusterApi()
    for _ in range(2):
        api.refuse("POST", "pods", refusal(409, "Conflict", CONFLICT))
    runtime = api.runtime(tmp_path)

    unit = await runtime.start(launch())

    assert unit.state is UnitState.RUNNING
    assert api.names("pods") == [unit.name]
    await runtime.close()


async def test_a_pod_that_a_start_before_created_is_taken(tmp_path: Path) -> None:
    api = ClusterApi()
    runtime = api.runtime(tmp_path)
    unit = await runtime.start(launch())
    api.refuse("GET", "pods", refusal(404, "NotFound", "not there yet"))

    assert (await runtime.start(launch())).name == unit.name
    await runtime.close()


async def test_a_start_that_the_cluster_refuses_leaves_no_pod(tmp_path: Path) -> None:
    api = ClusterApi(status={"phase": "Pending"})
    api.refuse("GET", "events", refusal(403, "Forbidden", "events is forbidden"))
    runtime = api.runtime(tmp_path)

    with pytest.raises(RuntimeUnavailable, match="events is forbidden"):
        await runtime.start(launch())

    assert api.names("pods") == []
    await runtime.close()


async def test_a_start_whose_files_cannot_be_copied_leaves_no_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*words: Any, **options: Any) -> None:
        raise keeper.ExecFailed("the files could not be copied: no space left on device")

    monkeypatch.setattr(keeper, "feed", fail)
    monkeypatch.setattr(pod_spec, "SECRET_LIMIT", 0)
    filling = [{"name": FILLER, "state": {"running": {}}}]
    api = ClusterApi(status={"phase": "Pending", "initContainerStatuses": filling})
    runtime = api.runtime(tmp_path)

    with pytest.raises(RuntimeUnavailable, match="no space left on device"):
        await runtime.start(launch())

    assert api.names("pods") == []
    await runtime.close()


class _DroppingNode(ClusterApi):
    """A node whose kubelet is restarted while it starts a container of the first pod."""

    def __init__(self, container: str, words: str) -> None:
        kind = "initContainerStatuses" if container == FILLER else "containerStatuses"
        ended = {"exitCode": 128, "reason": "StartError", "message": words}
        container_status = {"name": container, "state": {"terminated": ended}}
        super().__init__(status={"phase": "Failed", kind: [container_status]})

    def _create(self, kind: str, body: dict[str, Any]) -> httpx.Response:
        answer = super()._create(kind, body)
        if kind == "pods":
            self.status = dict(RUNNING)
        return answer


@pytest.mark.parametrize(
    ("container", "words"), [("step", DROPPED), (FILLER, DROPPED), (FILLER, MAY_HAVE_BEGUN)]
)
async def test_a_start_that_the_node_dropped_is_begun_again(
    tmp_path: Path, container: str, words: str
) -> None:
    api = _DroppingNode(container, words)
    reported: list[str] = []

    async def report(sentence: str) -> None:
        reported.append(sentence)

    runtime = api.runtime(tmp_path, pending_s=10)

    await runtime.prepare(launch(), pulling=ignore_pull, waiting=report)

    assert reported == [f"node ? dropped the start of the step: {words}", ""]
    pod = api.objects["pods"][launch().name]
    assert pod["status"] == RUNNING
    environment = pod["spec"]["containers"][0]["envFrom"][0]["secretRef"]["name"]
    assert environment in api.names("secrets")
    assert environment != pod_spec.secret_name(launch().name, "env"), "that goes with the first pod"
    await runtime.close()


async def test_a_step_that_may_have_begun_is_not_started_again_unasked(tmp_path: Path) -> None:
    api = _DroppingNode("step", MAY_HAVE_BEGUN)
    runtime = api.runtime(tmp_path, pending_s=10)

    with pytest.raises(RuntimeFailure, match="which may have begun") as failure:
        await runtime.start(launch())

    assert failure.value.reason == "node_lost"
    assert api.names("pods") == []
    await runtime.close()


async def test_a_service_that_may_have_begun_is_started_again(tmp_path: Path) -> None:
    api = _DroppingNode("step", MAY_HAVE_BEGUN)
    runtime = api.runtime(tmp_path, pending_s=10)

    unit = await runtime.start(launch(node={"command": ["true"], "kind": "service"}))

    assert unit.state is UnitState.RUNNING
    await runtime.close()
