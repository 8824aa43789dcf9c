from __future__ import annotations

import json
import random
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.db import connections

from apps.executions.domain.events import OVERVIEW_NUDGE
from apps.executions.models import Execution
from apps.executions.selectors import overview as overviews
from apps.streams import api as streams
from apps.streams import conf
from platform_site.asgi import application
from tests.apps.executions_rest.conftest import end_streams, make_run, write_event, write_lines

pytestmark = pytest.mark.django_db(transaction=True)


class Stream:
    """A client of one SSE answer."""

    def __init__(self, path: str, bearer: str = "", method: str = "GET", **headers: str) -> None:
        path, _, query = path.partition("?")
        sent = {"host": "localhost", **({"authorization": bearer} if bearer else {}), **headers}
        self._call = ApplicationCommunicator(
            application,
            {
                "type": "http",
                "method": method,
                "path": f"/api/v1/{path}",
                "query_string": query.encode(),
                "headers": [
                    (name.replace("_", "-").encode(), value.encode())
                    for name, value in sent.items()
                ],
                "client": ("127.0.0.1", 1),
                "http_version": "1.1",
            },
        )
        self._buffer = b""
        self.status = 0
        self.headers: dict[str, str] = {}
        self.over = False

    async def open(self) -> None:
        await self._call.send_input({"type": "http.request", "body": b"", "more_body": False})
        start = await self._call.receive_output(5)
        self.status = start["status"]
        self.headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}

    async def frame(self) -> str:
        """The next frame or comment, without the blank line; empty when the answer is over."""
        while b"\n\n" not in self._buffer:
            if self.over:
                return ""
            message = await self._call.receive_output(5)
            self._buffer += message.get("body", b"")
            self.over = not message.get("more_body", False)
        frame, _, self._buffer = self._buffer.partition(b"\n\n")
        return frame.decode()

    async def record(self) -> dict[str, Any]:
        """The data of the next record."""
        while (frame := await self.frame()).startswith(":"):
            continue
        record: dict[str, Any] = json.loads(frame.partition("data: ")[2])
        return record

    async def rest(self) -> list[str]:
        """Every frame until the server closes."""
        frames = []
        while frame := await self.frame():
            frames.append(frame)
        return frames

    async def is_quiet(self, seconds: float) -> bool:
        """Whether nothing comes for so long."""
        return bool(await self._call.receive_nothing(seconds)) and not self._buffer

    async def close(self) -> None:
        if not self.over:
            await self._call.send_input({"type": "http.disconnect"})
        await self._call.wait(30)


@asynccontextmanager
async def streaming(path, caller, **headers):
    stream = Stream(path, caller.bearer, **headers)
    await stream.open()
    try:
        yield stream
    finally:
        await stream.close()


@pytest.fixture(autouse=True)
async def _one_hub():
    from apps.streams.services.hub import stop_hub

    yield
    await stop_hub()
    await sync_to_async(connections.close_all)()  # those of the thread that the tests write on


@pytest.fixture
def row(ada):
    return make_run(ada.workspace_id)


@pytest.mark.parametrize(
    "path", ["executions/{}/events", "executions/{}/logs", "engine/overview/stream"]
)
async def test_head_answers_with_the_headers_of_the_stream_and_ends(ada, row, path):
    for _ in range(conf.streams_per_user()):  # and holds no place among the user's streams
        async with streaming(path.format(row.run_id), ada, method="HEAD") as earlier:
            assert await earlier.rest() == []
    async with streaming(path.format(row.run_id), ada, method="HEAD") as stream:
        assert await stream.rest() == []
    async with streaming("executions/run-0123456789ab/events", ada, method="HEAD") as nowhere:
        await nowhere.rest()

    assert (stream.status, nowhere.status) == (200, 404)
    assert stream.headers["content-type"] == "text/event-stream"
    assert stream.headers["cache-control"] == "no-cache"


async def test_the_transcript_of_a_run_that_is_over(ada, row):
    await sync_to_async(write_event)(row.run_id, "execution", "execution-queued", "pending")
    await sync_to_async(write_event)(row.run_id, "db", "queued", "queued")
    await sync_to_async(end_streams)(row.run_id, "Healthy")

    async with streaming(f"executions/{row.run_id}/events", ada) as stream:
        frames = await stream.rest()

    assert stream.headers["content-type"] == "text/event-stream"
    assert stream.headers["cache-control"] == "no-cache"
    assert stream.headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in stream.headers
    assert frames[0] == ": connected"
    assert frames[-1] == 'event: end\ndata: {"status":"Healthy","lastId":2}'
    first = json.loads(frames[1].removeprefix("id: 1\ndata: "))
    assert list(first) == [
        "id",
        "executionId",
        "executionStatus",
        "failing",
        "duration",
        "updatedAt",
        "event",
    ]
    assert (first["executionStatus"], first["event"]["id"]) == (
        "Booting",
        "execution-execution-queued",
    )


async def test_a_log_stream_replays_follows_and_ends(ada, row):
    await sync_to_async(write_lines)(row.run_id, "api", ["one", "two"])

    async with streaming(f"executions/{row.run_id}/logs", ada) as stream:
        stored = [await stream.record() for _ in range(2)]
        await sync_to_async(write_lines)(row.run_id, "api", ["three"])
        live = await stream.record()
        await sync_to_async(end_streams)(row.run_id, "Failed")
        end = await stream.rest()

    assert [record.keys() for record in stored] == [{"id", "executionId", "line"}] * 2
    assert (live["id"], live["line"]["text"]) == (3, "three")
    assert end == ['event: end\ndata: {"status":"Failed","lastId":3}']


@pytest.mark.parametrize(
    ("query", "last_event_id", "first"),
    [
        ("", None, 1),
        ("?since=3", None, 4),
        ("", "7", 8),
        ("?since=3", "7", 8),
        ("?since=8", "7", 9),
        ("?since=3", "garbage", 4),
        ("?since=99", None, None),
    ],
)
async def test_a_reader_goes_on_after_the_larger_of_since_and_last_event_id(
    ada, row, query, last_event_id, first
):
    """Invariant 10."""
    await sync_to_async(write_lines)(row.run_id, "api", [str(n) for n in range(10)])
    await sync_to_async(end_streams)(row.run_id, "Healthy")
    headers = {"last_event_id": last_event_id} if last_event_id else {}

    async with streaming(f"executions/{row.run_id}/logs{query}", ada, **headers) as stream:
        frames = await stream.rest()

    ids = [int(frame.split("\n")[0][4:]) for frame in frames if frame.startswith("id: ")]
    assert ids == (list(range(first, 11)) if first else [])


async def test_sources_filter_a_log_without_gaps(ada, row):
    for source in ("api", "db", "api", "seed"):
        await sync_to_async(write_lines)(row.run_id, source, [source])
    await sync_to_async(end_streams)(row.run_id, "Healthy")

    async with streaming(f"executions/{row.run_id}/logs?source=api&source=seed", ada) as stream:
        frames = await stream.rest()

    assert [frame.split("\n")[0] for frame in frames] == [
        ": connected",
        "id: 1",
        "id: 3",
        "id: 4",
        "event: end",
    ]


@pytest.mark.slow
async def test_a_reader_that_comes_and_goes_gets_every_line_once(ada, row):
    """Invariant 10."""
    rng = random.Random(7)
    seen: list[int] = []
    written = 0
    while written < 300 or len(seen) < written:
        if written < 300:
            await sync_to_async(write_lines)(row.run_id, "api", ["x"] * 10)
            written += 10
        last = str(seen[-1]) if seen else "0"
        async with streaming(f"executions/{row.run_id}/logs", ada, last_event_id=last) as stream:
            wanted = min(rng.randrange(1, 15), written - len(seen))
            seen += [(await stream.record())["id"] for _ in range(wanted)]

    assert seen == list(range(1, 301))


async def test_an_overview_stream_sends_the_newest_state(ada, row, monkeypatch):
    monkeypatch.setattr(overviews, "_overview_cache", None)

    async with streaming("engine/overview/stream", ada, last_event_id="5") as stream:
        first = await stream.record()
        await Execution.objects.filter(pk=row.pk).aupdate(failing=True, version=5)
        streams.nudge(OVERVIEW_NUDGE)
        second = await stream.record()

    assert [run["failing"] for run in first["executions"]] == [False]
    assert [run["failing"] for run in second["executions"]] == [True]


async def test_an_overview_stream_holds_only_the_callers_scope(ada, bob, row, monkeypatch):
    """Invariant 16."""
    monkeypatch.setattr(overviews, "_overview_cache", None)

    async with streaming("engine/overview/stream", bob) as stream:
        first = await stream.record()
        await sync_to_async(make_run)(ada.workspace_id)
        streams.nudge(OVERVIEW_NUDGE)
        assert await stream.is_quiet(0.7)

    assert first["executions"] == []


async def test_a_token_in_the_query_opens_a_stream(ada, row):
    await sync_to_async(end_streams)(row.run_id, "Healthy")

    stream = Stream(f"executions/{row.run_id}/events?token={ada.token}")
    await stream.open()
    await stream.rest()
    await stream.close()

    assert stream.status == 200


async def test_nobody_streams_without_a_credential(ada, row):
    for path in ("events", "logs"):
        stream = Stream(f"executions/{row.run_id}/{path}")
        await stream.open()
        assert (stream.status, stream.headers["content-type"]) == (401, "application/problem+json")
        await stream.frame()
        await stream.close()
