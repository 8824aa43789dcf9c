"""What the API answers about one task."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from django.db import connection

from kernel.clock import rfc3339
from sync_stack.core.tasks import State
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.server.http_api import HttpApi
from sync_stack.orchestrator.server.metrics import OrchestratorMetrics

pytestmark = pytest.mark.store
UNKNOWN = (
    "0198f0c2-7d1e-7c41-9a57-2f5d0c1e8b11",
    "none",
    "%00" * 36,
    "%C3%A4" * 36,
    "'" * 36,
    "x" * 5000,
)


def _close() -> None:
    """The connection of the thread that calls."""
    connection.close()


def asked(
    paths: Sequence[str], *, keys: tuple[str, ...] = (), key: str = ""
) -> list[httpx.Response]:
    thread = ThreadPoolExecutor(1)
    api = HttpApi(
        keys=keys,
        origins=(),
        checks=dict,
        metrics=OrchestratorMetrics(version="test"),
        threads=thread,
    )

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=api)
        headers = {"authorization": f"Bearer {key}"} if key else {}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://test", headers=headers
        ) as client:
            return [await client.get(path) for path in paths]

    found = asyncio.run(ask())
    api.threads.submit(_close).result()
    return found


def test_a_known_task_is_answered_in_every_state(world):
    """Sync invariant 35."""
    task = world.commit_and_push({"app.yaml": "a: 1\n"})
    for state in State:
        Task.objects.update(state=state)
        (found,) = asked([f"/v1/tasks/{task.id}"])
        assert (found.status_code, found.json()["state"]) == (200, state)


def test_an_unknown_task_is_404_whatever_its_name():
    """Sync invariant 35."""
    found = asked([f"/v1/tasks/{name}" for name in UNKNOWN])
    assert {(each.status_code, each.json()["code"]) for each in found} == {(404, "task_not_found")}


def test_what_no_store_can_be_asked_for_is_a_wrong_parameter():
    found = asked([f"/v1/{name}?repo=%00" for name in ("tasks", "targets")])
    assert {(e.status_code, e.json()["code"]) for e in found} == {(400, "invalid_parameter")}


def test_a_target_that_is_behind_says_why_and_what_to_do(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    (well,) = asked(["/v1/targets"])
    assert "behind" not in well.json()["targets"][0]
    task = world.finish(world.commit_and_push({"app.yaml": "a: [\n"}))

    (found,) = asked(["/v1/targets"])

    (target,) = found.json()["targets"]
    assert target["behind"] | {"detail": ""} == {
        "state": "failed",
        "since": rfc3339(task.created_at),
        "task_id": task.id,
        "commit": task.request["events"][0]["commit"],
        "code": "parse_error",
        "detail": "",
        "file": "app.yaml",
        "line": task.error["line"],
        "next": f"fix app.yaml:{task.error['line']} in Git and push",
    }


def test_refs_without_a_target_are_listed_by_rule_and_repository(world):
    world.finish(world.commit_and_push({"app.yaml": "a: [\n"}))

    paths = [f"/v1/refs/unapplied{query}" for query in ("", "?rule=shop", "?repo=a/b", "?env=x")]
    every, of_rule, of_other, unknown = asked(paths)

    (ref,) = every.json()["refs"]
    assert (ref["rule_id"], ref["ref"]) == ("shop", "refs/heads/main")
    assert ref["behind"]["code"] == "parse_error"
    assert of_rule.json() == every.json()
    assert of_other.json() == {"refs": []}
    assert (unknown.status_code, unknown.json()["code"]) == (400, "unknown_parameter")


@pytest.mark.parametrize("key", ["", "wrong"])
def test_no_list_is_answered_without_the_key(world, key):
    task = world.commit_and_push({"app.yaml": "a: [\n"})
    paths = ["/v1/refs/unapplied", "/v1/targets", "/v1/tasks", f"/v1/tasks/{task.id}", "/v1/drift"]

    refused = asked(paths, keys=("right",), key=key)

    assert {(each.status_code, each.json()["code"]) for each in refused} == {
        (401, "unauthenticated")
    }
    assert {each.status_code for each in asked(paths, keys=("right",), key="right")} == {200}
