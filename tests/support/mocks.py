"""Mocks served in the process of a test: the engine, with state and journal in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from asgiref.sync import sync_to_async

from apps.mocks.domain.calls import CallOutcome, JournalEntry, MockAnswer, MockRequest
from apps.mocks.domain.engine import Engine
from apps.mocks.domain.ports import ProxyAnswer, ScriptFailed
from apps.mocks.domain.spaces import SpaceName
from apps.mocks.domain.tables import CompiledSpace, compile_space
from apps.mocks.journal.memory import MemoryJournal
from apps.mocks.selectors import SharedSpaces
from apps.mocks.state.memory import MemoryState

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
class MemoryServing:
    """The spaces of runs serve the suite as it is now; those in `ended` are over."""

    state: MemoryState = field(default_factory=MemoryState)
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    ended: set[str] = field(default_factory=set)
    calls: int = 0

    @property
    def engine(self) -> Engine:
        return Engine(state=self.state, scripts=NoScripts(), proxy=NoProxy())

    async def load(self, name: SpaceName) -> CompiledSpace | None:
        if name.execution_id in self.ended:
            return None
        content = await sync_to_async(SharedSpaces().load)(SpaceName(name.suite_id))
        return None if content is None else compile_space(content, name)

    async def call(
        self, name: SpaceName, surface_id: str, method: str, path: str, body: bytes = b""
    ) -> MockAnswer:
        """Call a mock; the journal has it."""
        space = await self.load(name)
        assert space is not None
        found = space.surfaces[surface_id].route(method, path)
        assert found is not None
        operation, params = found
        request = MockRequest(method, path, params=params, raw_body=body)
        answer = await self.engine.answer(operation, request)
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

    def note(self, name: SpaceName, **facts: Any) -> JournalEntry:
        """Put a call into the journal, a second after the one before."""
        self.calls += 1
        entry = JournalEntry(
            **{
                "id": f"call-{self.calls:04d}",
                "time": BEGIN + timedelta(seconds=self.calls),
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
