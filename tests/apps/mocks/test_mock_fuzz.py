"""20,000 calls of a suite that uses everything, right, changed and garbage, by both ways.

Whatever comes: no answer of 500 and above but those that a mock says or that are named here, no
exception in the log, the same answer and the same line of the journal early and by ASGI, and the
memory stays as it was.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import random
from typing import Any

import psutil
import pytest

from kernel.prepared_answers import EXTENSION
from mocks.engine.engine import Engine
from mocks.engine.nearest import nearest
from mocks.engine.tables import compile_space
from mocks.journal.memory import MemoryJournal
from mocks.model.calls import CALLBACK
from mocks.plane.asgi import MockPlane
from mocks.plane.setup import PlaneSetup
from mocks.proxies.guarded import GuardedProxy
from mocks.spaces import Spaces, SpacesSetup
from mocks.state.memory import MemoryState
from surfaces.operation_rules import ValidateMode
from tests.support.early_first import EarlyFirst
from tests.support.fuzzed_mocks import SPACE, FuzzedCalls, content
from tests.support.grpc_mocks import Suites
from tests.support.raw_calls import RawAnswer, RawCall, call
from tests.support.served_mocks import NoScripts

CALLS = 20_000
WARM = 5_000
TAKEN = 599  # what stands here for the status of a connection that a fault has taken
DECLARED = frozenset({500, 503, TAKEN})  # by examples: a fault of SOAP, `down`
OURS = frozenset({"mock_proxy_refused"})


class Connection:
    """What a fault writes to, and how it ends."""

    def __init__(self) -> None:
        self.written = b""
        self.taken = False

    def take(self) -> Connection:
        self.taken = True
        return self

    def write(self, data: bytes) -> None:
        self.written += b"garbage" if data[:1] == b"\0" else data

    def close(self) -> None:
        self.written += b"|closed"

    def abort(self) -> None:
        self.written += b"|reset"

    def get_extra_info(self, _name: str) -> None:
        return None


class Way:
    """A plane over memory that is asked in one of the two ways."""

    def __init__(self, mode: ValidateMode, *, is_early: bool) -> None:
        source = Suites({SPACE: content()})
        self.spaces = Spaces(SpacesSetup(source_of=lambda _kind: source, compile=compile_space))
        self.journal = MemoryJournal()
        self.state = MemoryState()
        engine = Engine(
            state=self.state, scripts=NoScripts(), proxy=GuardedProxy(), rng=random.Random(7),
            validate=mode,
        )  # fmt: skip
        setup = PlaneSetup(spaces=self.spaces, engine=engine, journal=self.journal, nearest=nearest)
        self.plane = MockPlane(setup)
        self.early = EarlyFirst(self.plane)
        self._asked: Any = self.early if is_early else self.plane

    async def ask(self, asked: RawCall) -> RawAnswer:
        connection = Connection()

        async def application(scope: Any, receive: Any, send: Any) -> None:
            extension = {
                "take_connection": connection.take,
                "send": lambda _head, _body: False,
                "is_body_here": lambda: False,
            }
            await self._asked({**scope, "extensions": {EXTENSION: extension}}, receive, send)
            if connection.taken:
                await send({"type": "http.response.start", "status": TAKEN, "headers": []})
                await send({"type": "http.response.body", "body": connection.written})

        return await call(application, asked)

    def lines(self) -> list[tuple[Any, ...]]:
        """Return what the journal has of the newest calls."""
        return [
            (each.method, each.path, each.operation_id, each.matched_example, each.outcome,
             each.status, each.contract_errors, each.state_key, each.fault, each.request_body)
            for each in self.journal.newest(SPACE)
            if each.method != CALLBACK
        ][:300]  # fmt: skip


def seen(answer: RawAnswer) -> tuple[int, dict[str, str], object]:
    """Return what must be the same: without what depends on the time."""
    headers = {**answer.headers, "date": "", "retry-after": ""}
    body: object = answer.body
    if headers.get("content-type") == "application/problem+json":
        headers["content-length"] = ""
        document = json.loads(answer.body or b"{}")
        document.pop("nearest", None)  # of unmatched calls, so many in a second
        body = document
    elif answer.status == TAKEN:
        body = answer.body.partition(b"content-length")[0]
    return answer.status, headers, body


@pytest.fixture(params=["warn", "enforce"])
def mode(request: pytest.FixtureRequest) -> ValidateMode:
    found: ValidateMode = request.param
    return found


@pytest.mark.slow
@pytest.mark.timeout(1_800)
async def test_calls_of_every_kind_are_answered_alike_by_both_ways(
    mode: ValidateMode, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING)
    ways = [Way(mode, is_early=False), Way(mode, is_early=True)]
    statuses: dict[int, int] = {}
    process, memory = psutil.Process(), 0
    for number, asked in enumerate(FuzzedCalls(26).calls(CALLS)):
        by_asgi, early = [await way.ask(asked) for way in ways]
        assert seen(by_asgi) == seen(early), (number, asked)
        status = by_asgi.status
        assert status < 500 or status in DECLARED or by_asgi.error in OURS, (number, asked, by_asgi)
        assert by_asgi.error != "internal_error", (number, asked)
        statuses[status] = statuses.get(status, 0) + 1
        if number == WARM:
            gc.collect()
            memory = process.memory_info().rss
    gc.collect()
    grown = process.memory_info().rss - memory
    assert ways[0].lines() == ways[1].lines()
    assert [each.message for each in caplog.records] == []
    assert ways[1].early.answered > CALLS / 5
    assert grown < 16 * 2**20, f"{grown / 2**20:.1f} MB more after {CALLS - WARM:,} calls"
    wanted = {200, 201, 204, 400, 404, 405, 429, 500, 502, 503, TAKEN}
    wanted |= {401, 415, 422} if mode == "enforce" else set()
    assert wanted <= statuses.keys(), statuses
    print(statuses, ways[1].early.answered, grown / 2**20)
    for way in ways:
        await asyncio.to_thread(way.spaces.stop)
