"""Calls and state of `mock serve`: its `/api/v1/mocks/verify`, `/journal` and `/state`.

As the control plane has them, for anybody who is not a page of another origin: a page that somebody
happens to visit shall not read what was sent to mocks. (reference: control-plane 18.1)
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import msgspec

from kernel.errors import InvalidInput, PlatformError
from mocks.engine.call_filters import CallFilter
from mocks.engine.documents import call_document, counter_document, record_document
from mocks.engine.verification import check_tag, read_question, verify, why_some_are_lost
from mocks.errors import SpaceNotActive, SuiteNotFound
from mocks.journal.memory import MemoryJournal
from mocks.model.calls import CallOutcome
from mocks.model.ports import StateStore
from mocks.plane import http_responses
from mocks.plane.http_exchange import HttpExchange
from mocks.plane.http_requests import parse_query, read_body
from mocks.standalone.own_routes import OwnRoute
from readers.diagnostics import nearest_advice

VERIFY: Final = "/api/v1/mocks/verify"
JOURNAL: Final = "/api/v1/mocks/journal"
STATE: Final = "/api/v1/mocks/state"
_SPACE: Final = ("suiteId", "executionId", "import")
_MAX_PAGE: Final = 200


class OriginRefused(PlatformError):
    code = "origin_not_allowed"


class ParameterInvalid(PlatformError):
    code = "invalid_parameter"


class ParameterUnknown(PlatformError):
    code = "unknown_parameter"


class _SpaceRoute(OwnRoute):
    """A route about the one space `suite_id`."""

    def __init__(self, suite_id: str, journal: MemoryJournal, state: StateStore) -> None:
        self._suite_id = suite_id
        self._journal = journal
        self._state = state

    async def answer(self, exchange: HttpExchange) -> None:
        origin, host = exchange.given.get(b"origin"), exchange.given.get(b"host", b"").decode()
        if origin is not None and urlsplit(origin.decode("latin-1")).netloc != host:
            exchange.has_origin = False  # no page gets to see even the refusal
            raise OriginRefused("pages of other origins may not ask for calls and state")
        await exchange.reply(*http_responses.document([], await self.document(exchange)))

    async def document(self, exchange: HttpExchange) -> Any:
        """Return what is answered."""
        raise NotImplementedError

    def parameters(self, exchange: HttpExchange, *known: str) -> Mapping[str, str]:
        """Return the query; raise ParameterUnknown, and for another space what it is not."""
        found = parse_query(exchange.scope.get("query_string", b""))
        for name in found:
            if name not in (*_SPACE, *known):
                advice = nearest_advice(name, (*_SPACE, *known))
                raise ParameterUnknown(f"unknown query parameter {name[:80]!r}; {advice}")
        self.require_space(found.get("suiteId", ""), found.get("executionId", ""))
        return found

    def require_space(self, suite_id: str, execution_id: str) -> None:
        if suite_id not in ("", self._suite_id):
            raise SuiteNotFound(suite_id)
        if execution_id:
            raise SpaceNotActive(execution_id)


class VerifyRoute(_SpaceRoute):
    methods: ClassVar[tuple[str, ...]] = ("POST",)

    async def document(self, exchange: HttpExchange) -> Any:
        body = await read_body(exchange.scope, exchange.given, exchange.receive)
        try:
            given = msgspec.json.decode(body or b"{}")
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"the body is no JSON: {error}", code="malformed_json") from None
        if isinstance(given, dict):
            given = {"suiteId": self._suite_id, **given}
        asked = read_question(given)
        self.require_space(asked.given.suite_id, asked.given.execution_id)
        entries = self._journal.newest(self._suite_id)
        gap = why_some_are_lost(entries, asked.filter.since)
        return await asyncio.to_thread(verify, asked, entries, gap=gap)


class JournalRoute(_SpaceRoute):
    methods: ClassVar[tuple[str, ...]] = ("GET", "DELETE")

    async def document(self, exchange: HttpExchange) -> Any:
        names = ("surfaceId", "operationId", "tag")
        reads = exchange.method == "GET"
        given = self.parameters(exchange, *names, *(("outcome", "limit") if reads else ()))
        surface_id, operation_id, tag = (given.get(name, "") for name in names)
        check_tag(tag)
        if not reads:
            removed = await self._journal.clear(
                self._suite_id, surface_id=surface_id, operation_id=operation_id, tag=tag
            )
            return {"removed": removed}
        outcome, limit = given.get("outcome", ""), given.get("limit", "50")
        if outcome not in ("", *CallOutcome):
            raise ParameterInvalid(f"outcome must be one of {', '.join(sorted(CallOutcome))}")
        if not limit.isdecimal() or not 0 < int(limit[:9]) <= _MAX_PAGE:
            raise ParameterInvalid(f"limit must be a whole number from 1 to {_MAX_PAGE}")
        wanted = CallFilter(
            surface_id=surface_id, operation_id=operation_id, tag=tag, outcome=outcome
        )
        found = [each for each in self._journal.newest(self._suite_id) if wanted.matches(each)]
        return {"entries": [call_document(each) for each in found[: int(limit)]]}


class StateRoute(_SpaceRoute):
    methods: ClassVar[tuple[str, ...]] = ("GET", "DELETE")

    async def document(self, exchange: HttpExchange) -> Any:
        reads = exchange.method == "GET"
        given = self.parameters(exchange, "key", *(("limit",) if reads else ("surfaceId",)))
        key = given.get("key", "")
        if not reads:
            surface_id = given.get("surfaceId", "")
            removed = await self._state.reset(self._suite_id, surface_id=surface_id, key=key)
            return {"removed": removed}
        records = await self._state.records(self._suite_id, key=key)
        counters = await self._state.counters(self._suite_id)
        return {
            "records": [record_document(each) for each in records],
            "counters": [counter_document(each) for each in counters],
        }
