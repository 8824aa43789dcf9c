"""`/api/v1/mocks` of `mock serve`: explain, verify, journal and state, as in the control plane.

Calls and state are for anybody who is not a page of another origin: a page that somebody happens
to visit shall not read what was sent to mocks. (reference: control-plane 18.1)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from kernel.errors import InvalidInput, PlatformError
from mocks.engine.documents import call_document, counter_document, record_document
from mocks.errors import SpaceNotActive, SuiteNotFound
from mocks.inspection.explained_calls import locate_call
from mocks.inspection.explanation import explain
from mocks.inspection.questions import (
    ExplainInput,
    JournalQuery,
    JournalReset,
    ParameterInvalid,
    SpaceInput,
    StateQuery,
    StateReset,
    read_body,
    read_query,
    space_name,
)
from mocks.inspection.verification import read_question, verify, why_some_are_lost
from mocks.journal.memory import MemoryJournal
from mocks.plane import http_responses
from mocks.plane.http_exchange import HttpExchange
from mocks.plane.http_requests import parse_query
from mocks.plane.http_requests import read_body as receive_body
from mocks.plane.setup import PlaneSetup
from mocks.standalone.own_routes import OwnRoute
from readers.diagnostics import nearest_advice

Asked = TypeVar("Asked", bound=SpaceInput)
Answer = Callable[[HttpExchange], Awaitable[Any]]
_BELOW: Final = "/api/v1/mocks"
_MAX_PAGE: Final = 200


class OriginRefused(PlatformError):
    code = "origin_not_allowed"


class ParameterUnknown(PlatformError):
    code = "unknown_parameter"


class InspectionRoute(OwnRoute):
    """What is asked of the space, by method; private of calls and state."""

    def __init__(self, answers: Mapping[str, Answer], *, is_private: bool = True) -> None:
        self.methods = tuple(answers)
        self._answers = answers
        self._is_private = is_private

    async def answer(self, exchange: HttpExchange) -> None:
        origin, host = exchange.given.get(b"origin"), exchange.given.get(b"host", b"")
        is_foreign = origin is not None and urlsplit(
            origin.decode("latin-1")
        ).netloc != host.decode("latin-1")
        if self._is_private and is_foreign:
            exchange.has_origin = False  # no page gets to see even the refusal
            raise OriginRefused("pages of other origins may not ask for calls and state")
        document = await self._answers[exchange.method](exchange)
        await exchange.reply(*http_responses.document([], document))


class Inspection:
    """Answers what is asked of the one space `suite_id`."""

    def __init__(self, setup: PlaneSetup, suite_id: str, journal: MemoryJournal) -> None:
        self._setup = setup
        self._suite_id = suite_id
        self._journal = journal
        self._state = setup.engine.state

    def routes(self) -> dict[str, InspectionRoute]:
        """Return the routes by path."""
        return {
            f"{_BELOW}/explain": InspectionRoute({"POST": self._explain}, is_private=False),
            f"{_BELOW}/verify": InspectionRoute({"POST": self._verify}),
            f"{_BELOW}/journal": InspectionRoute(
                {"GET": self._list_calls, "DELETE": self._forget_calls}
            ),
            f"{_BELOW}/state": InspectionRoute(
                {"GET": self._show_state, "DELETE": self._reset_state}
            ),
        }

    async def _explain(self, exchange: HttpExchange) -> Any:
        call = read_body(ExplainInput, await self._body(exchange))
        space = await self._setup.spaces.find(space_name(call))
        return await explain(self._setup.engine, *locate_call(space.compiled, call))

    async def _verify(self, exchange: HttpExchange) -> Any:
        asked = read_question(await self._body(exchange))
        entries = self._journal.newest(self._suite_id)
        gap = why_some_are_lost(entries, asked.filter.since)
        return await asyncio.to_thread(verify, asked, entries, gap=gap)

    async def _list_calls(self, exchange: HttpExchange) -> Any:
        asked, limit = self._query(exchange, JournalQuery)
        found = [
            each for each in self._journal.newest(self._suite_id) if asked.filter.matches(each)
        ]
        return {"entries": [call_document(each) for each in islice(found, limit)]}

    async def _forget_calls(self, exchange: HttpExchange) -> Any:
        asked, _ = self._query(exchange, JournalReset)
        removed = await self._journal.clear(
            self._suite_id, surface_id=asked.surface_id, operation_id=asked.operation_id,
            tag=asked.tag,
        )  # fmt: skip
        return {"removed": removed}

    async def _show_state(self, exchange: HttpExchange) -> Any:
        asked, _ = self._query(exchange, StateQuery)
        records = await self._state.records(self._suite_id, key=asked.key)
        counters = await self._state.counters(self._suite_id)
        return {
            "records": [record_document(each) for each in records],
            "counters": [counter_document(each) for each in counters],
        }

    async def _reset_state(self, exchange: HttpExchange) -> Any:
        asked, _ = self._query(exchange, StateReset)
        removed = await self._state.reset(
            self._suite_id, surface_id=asked.surface_id, key=asked.key
        )
        return {"removed": removed}

    async def _body(self, exchange: HttpExchange) -> Any:
        body = await receive_body(exchange.scope, exchange.given, exchange.receive)
        try:
            given = msgspec.json.decode(body or b"{}")
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"the body is not JSON: {error}", code="malformed_json") from None
        return self._of_own_space(given) if isinstance(given, dict) else given

    def _query(self, exchange: HttpExchange, kind: type[Asked]) -> tuple[Asked, int]:
        """Return what a query asks, and of how many calls."""
        given = parse_query(exchange.scope.get("query_string", b""))
        known = (*kind.__struct_encode_fields__, *(("limit",) if exchange.method == "GET" else ()))
        for name in given.keys() - set(known):
            advice = nearest_advice(name, known)
            raise ParameterUnknown(f"unknown query parameter {name[:80]!r}; {advice}")
        limit = given.get("limit", "50")
        if not limit.isdecimal() or not 0 < int(limit[:9]) <= _MAX_PAGE:
            raise ParameterInvalid(f"limit must be a whole number from 1 to {_MAX_PAGE}")
        return read_query(kind, self._of_own_space(given)), int(limit)

    def _of_own_space(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what is asked of this space, which need not be named; raise for another one."""
        if (suite_id := given.get("suiteId")) not in (None, "", self._suite_id):
            raise SuiteNotFound(str(suite_id))
        if run_id := given.get("executionId"):
            raise SpaceNotActive(str(run_id))
        return {**given, "suiteId": self._suite_id}
