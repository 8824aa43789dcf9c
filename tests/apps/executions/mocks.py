"""The mock plane as runs see it, in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from apps.mocks.api import JournalEntry, SpaceName
from kernel import clock


@dataclass
class MockPlane:
    """`fault`: why surfaces do not answer; `calls`: the journal of each space, the newest first."""

    fault: str = ""
    before_answer: Callable[[], object] = lambda: None
    asked: list[tuple[str, list[str]]] = field(default_factory=list)
    resets: list[tuple[str, list[str]]] = field(default_factory=list)
    calls: dict[str, list[JournalEntry]] = field(default_factory=dict)
    delay_s: float | None = 0.0
    before_read: Callable[[], object] = lambda: None
    gap: str = ""
    waits: list[float] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)

    def wait_until_ready(
        self, base_url: str, name: SpaceName, surface_ids: Collection[str], *, timeout_s: float
    ) -> str:
        assert base_url
        assert timeout_s > 0
        self.asked.append((str(name), sorted(surface_ids)))
        self.waits.append(timeout_s)
        self.before_answer()
        return self.fault

    def reset_space(self, name: SpaceName, *, surface_ids: Collection[str] = ()) -> None:
        self.resets.append((str(name), sorted(surface_ids)))

    def read_journal(self, name: SpaceName) -> Sequence[JournalEntry]:
        self.before_read()
        return self.calls.get(str(name), [])

    def journal_delay_s(self) -> float | None:
        return self.delay_s

    def journal_gap(self, since: datetime) -> str:
        assert since <= clock.now()
        return self.gap

    def forget_spaces(self, execution_ids: Collection[str]) -> None:
        self.forgotten += execution_ids
