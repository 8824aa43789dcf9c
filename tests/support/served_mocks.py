"""Mocks served in the process of a test: the engine, with state and journal in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from mocks.engine.engine import Engine
from mocks.engine.tables import compile_space
from mocks.journal.memory import MemoryJournal
from mocks.model.calls import CallOutcome, JournalEntry, MockAnswer, MockRequest
from mocks.model.ports import ProxyAnswer, ScriptFailed, SpaceContent
from mocks.model.spaces import SpaceName
from mocks.spaces import Spaces, SpacesSetup
from mocks.state.memory import MemoryState

BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class NoScripts:
    async def run(
        self,
        source: str,
        *,
        defines_function: bool,
        request: Mapping[str, Any],
        state: Mapping[str, str],
    ) -> str | None:
        raise ScriptFailed("no script runs in this test")


class NoProxy:
    async def forward(
        self,
        url: str,
        *,
        method: str,
        headers: Mapping[str, str],
        body: bytes,
        let_through: frozenset[str],
    ) -> ProxyAnswer:
        raise AssertionError(f"sent to {url}")


@dataclass
class Contents:
    """A space source of one suite; runs serve it, too, unless they are in `ended`."""

    content: SpaceContent
    ended: set[str] = field(default_factory=set)

    def load(self, name: SpaceName) -> SpaceContent | None:
        return self.content if self.generations([name]) else None

    def generations(self, names: Sequence[SpaceName]) -> Mapping[SpaceName, str]:
        return {
            name: self.content.generation
            for name in names
            if name.suite_id == self.content.suite_id and name.execution_id not in self.ended
        }


class MemoryParts:
    """`components.mock_parts()` of a process without Redis and without a server."""

    loop = None
    link = None
    serves_since = None

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.state = MemoryState()
        self.journal = MemoryJournal()
        self.engine = Engine(state=self.state, scripts=NoScripts(), proxy=NoProxy())
        self.spaces = Spaces(
            SpacesSetup(source_of=lambda _kind: contents, compile=compile_space, state=self.state)
        )
        self._calls = 0

    def call(
        self, name: SpaceName, surface_id: str, method: str, path: str, body: bytes = b""
    ) -> MockAnswer:
        """Call a mock; the journal has it."""
        found = compile_space(self.contents.content, name).surfaces[surface_id].route(method, path)
        assert found is not None
        operation, params = found
        request = MockRequest(method, path, params=params, raw_body=body)
        answer = asyncio.run(self.engine.answer(operation, request))
        self.note(
            name,
            surface_id=surface_id,
            operation_id=operation.operation.operation_id,
            method=method,
            path=path,
            matched_example=answer.example,
            outcome=answer.outcome,
            status=answer.status,
            state_key=answer.state_key,
            nearest=answer.nearest,
        )
        return answer

    def draw(self, name: SpaceName, surface_id: str, operation_id: str) -> int:
        return asyncio.run(self.state.draw(str(name), surface_id, operation_id))

    def note(self, name: SpaceName, **facts: Any) -> JournalEntry:
        """Put a call into the journal, a second after the one before."""
        self._calls += 1
        entry = JournalEntry(
            **{
                "id": f"call-{self._calls:04d}",
                "time": BEGIN + timedelta(seconds=self._calls),
                "method": "GET",
                "path": "/goods",
                "surface_id": "shop",
                "operation_id": "listGoods",
                "outcome": CallOutcome.EXAMPLE,
                "status": 200,
                "duration_ms": 0.4,
                **facts,
            }
        )
        self.journal.add(str(name), entry)
        return entry
