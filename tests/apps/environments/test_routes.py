"""The routes of environments over HTTP (reference: control-plane 12, 17)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from apps.operations.services.audit_trail import is_audited
from tests.apps.environments.conftest import RunnerOfLoops
from tests.apps.executions_rest.conftest import Caller, make_run
from tests.apps.executions_rest.test_shared_stream import shared, sorted_out
from tests.apps.executions_rest.test_streams import streaming
from tests.support.api_clients import problem
from tests.support.resources import EngineInMemory, resource

Start = Callable[..., RunnerOfLoops]
ORPHAN = "orphan-container-store"


@pytest.fixture
def orphan(engine: EngineInMemory, start_runner: Start, ada: Caller) -> str:
    """A container without a run, of Ada's workspace."""
    engine.put(resource(run_id="", label={"workspace_id": str(ada.workspace_id)}))
    start_runner(engine)
    return ORPHAN


def test_a_member_lists_and_removes_what_is_of_the_workspace(
    orphan: str, engine: EngineInMemory, ada: Caller, bob: Caller
) -> None:
    """Invariant 16."""
    listed = ada.get("sandboxes")
    foreign = bob.post(f"sandboxes/{orphan}/reap")
    unknown = bob.post("sandboxes/run-0123456789ab/reap")
    dry = ada.post(f"sandboxes/{orphan}/reap", {"dryRun": True})
    assert engine.names() == {"store"}
    real = ada.post(f"sandboxes/{orphan}/reap")

    assert [each["sandboxId"] for each in listed.json()["sandboxes"]] == [orphan]
    assert bob.get("sandboxes").json()["sandboxes"] == []
    assert problem(foreign) == problem(unknown) == (404, "sandbox_not_found")
    assert (dry.json()["removedContainers"], dry.json()["dryRun"]) == (1, True)
    assert (real.status_code, real.json()["removedContainers"]) == (200, 1)
    assert engine.names() == set()


def test_only_administrators_remove_everything(
    orphan: str, engine: EngineInMemory, ada: Caller, admin: Caller
) -> None:
    """Invariant 17."""
    refused = ada.post("sandboxes/reap-all", {"dryRun": True})
    zombies = admin.post("sandboxes/reap-all", {"onlyZombies": True})
    everything = admin.post("sandboxes/reap-all")

    assert problem(refused) == (403, "admin_required")
    assert (zombies.json()["removedContainers"], everything.json()["removedContainers"]) == (0, 1)
    assert orphan
    assert engine.names() == set()


def test_without_a_runner_a_reap_is_503_and_says_when_to_try_again(ada: Caller) -> None:
    answer = ada.post("sandboxes/run-0123456789ab/reap")

    assert problem(answer) == (503, "container_runtime_unavailable")
    assert answer["Retry-After"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"status": "Gone"}, "invalid_parameter"),
        ({"q": "x" * 201}, "invalid_parameter"),
        ({"limit": "3"}, "unknown_parameter"),
    ],
)
def test_a_list_refuses_what_it_does_not_understand(
    ada: Caller, query: dict[str, str], code: str
) -> None:
    assert problem(ada.get("sandboxes", query)) == (400, code)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("sandboxes/x/reap", {"dryRun": "perhaps"}),
        ("sandboxes/x/reap", {"onlyZombies": True}),
        ("sandboxes/reap-all", {"force": True}),
        ("sandboxes/reap-all", []),
    ],
)
def test_a_reap_refuses_a_body_that_it_does_not_understand(
    admin: Caller, path: str, body: Any
) -> None:
    assert admin.post(path, body).status_code == 400


def test_filters_narrow_the_list(
    engine: EngineInMemory, start_runner: Start, admin: Caller
) -> None:
    engine.put(resource(name="a", run_id=""), resource("volume", "b", run_id=""))
    start_runner(engine)

    def found(**query: str) -> list[str]:
        answer = admin.get("sandboxes", query).json()
        return [each["sandboxId"] for each in answer["sandboxes"]]

    assert found(status="residual,Zombie") == ["orphan-volume-b"]
    assert found(q="CONTAINER-A") == ["orphan-container-a"]


def test_reaps_are_audited_on_the_api_and_on_the_page() -> None:
    for path in ("/api/v1/sandboxes/x/reap", "/environments/reap", "/environments/reap-all"):
        assert is_audited("POST", path), path


@pytest.fixture
async def hub() -> AsyncIterator[None]:
    from apps.streams.services.hub import stop_hub

    yield
    await stop_hub()
    await sync_to_async(connections.close_all)()


def record(frame: str) -> dict[str, Any]:
    first, _, data = frame.partition("\ndata: ")
    document: dict[str, Any] = json.loads(data)
    assert first == f"id: {document['id']}"
    return document


async def next_record(stream: Any) -> dict[str, Any]:
    while True:
        frame = await stream.frame()
        if not frame.startswith(":"):
            return record(frame)


@pytest.mark.slow
@pytest.mark.usefixtures("hub")
async def test_a_reader_that_reconnects_50_times_sees_the_result_of_every_change(
    engine: EngineInMemory, start_runner: Start, ada: Caller
) -> None:
    """Invariant 10."""
    await sync_to_async(start_runner)(engine)
    label = {"workspace_id": str(ada.workspace_id)}
    last_id, wanted = 0, set[str]()

    for number in range(50):
        name = f"c{number}"
        engine.put(resource(name=name, run_id="", label=label))
        wanted.add(f"orphan-container-{name}")
        if number % 3 == 2:
            gone = f"c{number - 2}"
            engine.resources.pop(("container", gone))
            wanted.discard(f"orphan-container-{gone}")
        await sync_to_async(ada.get)("sandboxes")
        await sync_to_async(look)(engine)
        async with streaming("sandboxes/events", ada, **{"Last-Event-ID": str(last_id)}) as stream:
            while True:
                found = await next_record(stream)
                assert found["id"] > last_id or found["id"] == last_id
                last_id = found["id"]
                ids = {each["sandboxId"] for each in found["snapshot"]["sandboxes"]}
                if ids == wanted:
                    break


def look(engine: EngineInMemory) -> None:
    from apps.environments.services.snapshots import look_again

    assert look_again().available or engine.away


@pytest.mark.usefixtures("hub")
async def test_an_open_stream_keeps_runners_looking_and_tells_each_change(
    engine: EngineInMemory, start_runner: Start, ada: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.environments.services import inventory_looks

    monkeypatch.setattr(inventory_looks, "LOOK_EVERY", inventory_looks.LOOK_EVERY / 20)
    run = await sync_to_async(make_run)(ada.workspace_id, status="Booting")
    await sync_to_async(start_runner)(engine)

    async with streaming("sandboxes/events", ada) as stream:
        first = await next_record(stream)
        engine.put(resource(run_id=run.run_id))
        while not (second := await next_record(stream))["snapshot"]["sandboxes"]:
            pass
        engine.end("store", exit_code=1)
        third = await next_record(stream)

    assert (first["reason"], first["snapshot"]["sandboxes"]) == ("latest", [])
    assert second["reason"] == "resources"
    assert third["snapshot"]["sandboxes"][0]["status"] == "Degraded"
    assert first["id"] < second["id"] < third["id"]


@pytest.mark.usefixtures("hub")
async def test_the_shared_stream_carries_the_environments(
    engine: EngineInMemory, start_runner: Start, ada: Caller
) -> None:
    await sync_to_async(start_runner)(engine)
    frames: list[str] = []

    async with streaming(shared("sandboxes/events"), ada) as stream:
        while not sorted_out(frames):
            frames.append(await stream.frame())

    [frame] = sorted_out(frames)[0]
    assert record(frame)["reason"] == "latest"
