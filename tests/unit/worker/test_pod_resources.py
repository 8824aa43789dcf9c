"""What a run leaves in a cluster: how it is found and removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import steps
from tests.support.cluster_api import RUN_ID, ClusterApi, launch, refusal
from worker.runtimes.kubernetes import pod_spec

QUOTA = "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"


def cleaner_ended(code: int) -> dict[str, Any]:
    ended = {"name": "keeper", "state": {"terminated": {"exitCode": code}}}
    return {"phase": "Succeeded", "containerStatuses": [ended]}


async def test_a_directory_that_could_not_be_removed_is_found_again(tmp_path: Path) -> None:
    api = ClusterApi()
    note = api.store("secrets", pod_spec.directory_note(launch()))
    api.refuse("POST", "pods", refusal(403, "Forbidden", QUOTA))
    runtime = api.runtime(tmp_path, claim="shared")

    removed = await runtime.release(RUN_ID, steps.owner())

    assert "left on the claim: exceeded quota" in removed.leftovers[0]
    assert api.names("secrets") == [note["metadata"]["name"]]
    assert await runtime.runs(steps.owner()) == {RUN_ID}
    await runtime.close()


@pytest.mark.parametrize(("code", "left"), [(0, 0), (1, 1)])
async def test_the_note_of_a_directory_goes_when_the_directory_is_gone(
    tmp_path: Path, code: int, left: int
) -> None:
    api = ClusterApi(status=cleaner_ended(code))
    api.store("secrets", pod_spec.directory_note(launch()))
    api.store("secrets", pod_spec.environment_secret(launch()))
    runtime = api.runtime(tmp_path, claim="shared")

    removed = await runtime.release(RUN_ID, steps.owner())

    assert (len(removed.leftovers), len(api.names("secrets"))) == (left, left)
    assert api.names("pods") == []
    await runtime.close()


async def test_a_heartbeat_reads_no_secrets(tmp_path: Path) -> None:
    api = ClusterApi()
    api.store("secrets", pod_spec.environment_secret(launch(env={"TOKEN": "hidden"})))
    runtime = api.runtime(tmp_path)

    assert await runtime.runs(steps.owner()) == {RUN_ID}

    accepted = [each.headers["Accept"] for each in api.requests if "secrets" in each.url.path]
    assert accepted == ["application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"]
    await runtime.close()


async def test_all_pages_of_changes_are_read_and_no_other_secret(tmp_path: Path) -> None:
    api, made = ClusterApi(page=2), launch()
    api.store("secrets", pod_spec.environment_secret(made))
    for number in range(5):
        changes = f"changes {number}".encode()
        shared = made.workspace.name
        api.store("secrets", pod_spec.changes_secret(made.labels, f"u{number}", shared, changes))
        api.store("secrets", pod_spec.changes_secret(made.labels, f"o{number}", "other", b""))
    runtime = api.runtime(tmp_path)

    found = await runtime._shared.changes(RUN_ID, made.workspace.name)

    assert found == [f"changes {number}".encode() for number in range(5)]
    assert len([each for each in api.requests if each.method == "GET"]) == 3
    await runtime.close()
