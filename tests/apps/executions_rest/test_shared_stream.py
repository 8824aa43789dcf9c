"""Several streams over one connection (reference: control-plane 12)."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlencode

import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from tests.apps.executions_rest.conftest import end_streams, make_run, write_event, write_lines
from tests.apps.executions_rest.test_streams import streaming

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _one_hub():
    from apps.streams.services.hub import stop_hub

    yield
    await stop_hub()
    await sync_to_async(connections.close_all)()


def shared(*addresses: str) -> str:
    return "streams?" + urlencode([("stream", f"/api/v1/{address}") for address in addresses])


def sorted_out(frames: list[str]) -> dict[int, list[str]]:
    """The frames of each stream."""
    found: dict[int, list[str]] = {}
    current = -1
    for frame in frames:
        if frame.startswith("event: stream\n"):
            current = int(frame.partition("data: ")[2])
        elif not frame.startswith(":"):
            found.setdefault(current, []).append(frame)
    return found


def timeless(frames: list[str]) -> list[str]:
    """The frames without what the run has taken up to now."""
    return [re.sub(r'"duration":"\d+:\d\d"', "", frame) for frame in frames]


def ids(frames: list[str]) -> list[int]:
    return [int(each.split("\n")[0][4:]) for each in frames if each.startswith("id: ")]


async def test_each_stream_has_the_frames_that_it_has_alone(ada):
    """Invariant 10."""
    rows = [await sync_to_async(make_run)(ada.workspace_id) for _ in range(3)]
    paths = []
    for row in rows:
        await sync_to_async(write_event)(row.run_id, "db", "queued", "queued")
        await sync_to_async(write_lines)(row.run_id, "api", [str(n) for n in range(2500)])
        await sync_to_async(end_streams)(row.run_id, "Healthy")
        paths += [f"executions/{row.run_id}/events", f"executions/{row.run_id}/logs?since=7"]
    paths.append(f"executions/{rows[0].run_id}/logs?source=nobody")

    async with streaming(shared(*paths), ada) as stream:
        together = sorted_out(await stream.rest())

    assert stream.headers["content-type"] == "text/event-stream"
    for number, path in enumerate(paths):
        async with streaming(path, ada) as single:
            alone = [frame for frame in await single.rest() if not frame.startswith(":")]
        assert timeless(together[number]) == [*timeless(alone), "event: over\ndata: {}"]
    assert ids(together[1]) == list(range(8, 2501))


async def test_live_records_of_every_stream_come_and_one_end_ends_only_its_own(ada):
    first, second = [await sync_to_async(make_run)(ada.workspace_id) for _ in range(2)]
    paths = [f"executions/{row.run_id}/logs" for row in (first, second)]

    async with streaming(shared(*paths), ada) as stream:
        assert await stream.frame() == ": connected"
        await sync_to_async(write_lines)(second.run_id, "api", ["of the second"])
        assert await stream.frame() == "event: stream\ndata: 1"
        assert (await stream.record())["line"]["text"] == "of the second"
        await sync_to_async(end_streams)(second.run_id, "Healthy")
        assert (await stream.frame()).startswith("event: end\n")
        assert await stream.frame() == "event: over\ndata: {}"
        await sync_to_async(write_lines)(first.run_id, "api", ["of the first"])
        assert await stream.frame() == "event: stream\ndata: 0"
        assert (await stream.record())["line"]["text"] == "of the first"
        await sync_to_async(end_streams)(first.run_id, "Failed")
        rest = await stream.rest()

    assert rest == [
        'event: end\ndata: {"status":"Failed","lastId":1}',
        "event: over\ndata: {}",
    ]


async def test_what_the_caller_may_not_see_is_refused_alone(ada, bob):
    """Invariant 16."""
    mine = await sync_to_async(make_run)(ada.workspace_id)
    theirs = await sync_to_async(make_run)(bob.workspace_id)
    for row in (mine, theirs):
        await sync_to_async(write_lines)(row.run_id, "api", ["secret"])
        await sync_to_async(end_streams)(row.run_id, "Healthy")
    asked = [
        f"executions/{theirs.run_id}/logs",
        f"executions/{mine.run_id}/logs",
        "executions/run-0123456789ab/events",
        f"executions/{mine.run_id}/logs?since=x",
        f"executions/{mine.run_id}",
        "nowhere",
    ]

    async with streaming(shared(*asked), ada) as stream:
        found = sorted_out(await stream.rest())

    assert ids(found[1]) == [1]
    problems: dict[int, Any] = {
        number: json.loads(frames[0].removeprefix("event: refused\ndata: "))
        for number, frames in found.items()
        if number != 1
    }
    assert {number: problem["code"] for number, problem in problems.items()} == {
        0: "execution_not_found",
        2: "execution_not_found",
        3: "invalid_parameter",
        4: "invalid_parameter",
        5: "invalid_parameter",
    }


@pytest.mark.parametrize("query", ["", "?stream=x&other=1", "?" + "stream=x&" * 201])
async def test_a_query_without_streams_or_with_too_many_is_refused(ada, query):
    async with streaming(f"streams{query}", ada) as stream:
        await stream.rest()

    assert stream.status == 400
