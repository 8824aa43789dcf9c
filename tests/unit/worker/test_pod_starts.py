"""Starts that meet pods of others, conflicts and refusals; what they leave behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster_api import ClusterApi, ignore_pull, launch, refusal
from worker.domain.runtime import RuntimeFailure, RuntimeUnavailable, UnitState
from worker.runtimes.kubernetes import keeper, pod_spec
from worker.runtimes.kubernetes.objects import FILLER

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
