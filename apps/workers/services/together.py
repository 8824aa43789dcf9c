"""Reports and claims of one worker that reach this process at once share a transaction.

Whoever holds the worker's lock takes along what arrived while the transaction before was open; the
others find their answers there. Different workers do not wait for one another here.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakValueDictionary

from apps.executions import api as executions
from kernel.errors import PlatformError

Report = executions.StateReport | executions.LogChunk | executions.Completion


def record(supervisor: executions.Supervisor, report: Report) -> executions.Recorded:
    """Raises StaleAttempt, LogGap, JobNotFound, InvalidInput, DatastoreUnavailable."""
    answer = _desk_of(supervisor).answer(_Waiting(report))
    if not isinstance(answer, executions.Recorded):
        raise TypeError("a report is recorded or refused")
    return answer


def claim(supervisor: executions.Supervisor) -> dict[str, Any] | None:
    """The spec of one step, or None when there is none for this supervisor now."""
    answer = _desk_of(supervisor).answer(_Waiting(None))
    return answer if isinstance(answer, dict) else None


@dataclass(eq=False, slots=True)
class _Waiting:
    """`report` None: a claim. Settled by whichever thread takes it along."""

    report: Report | None
    is_settled: bool = False
    answer: executions.Recorded | dict[str, Any] | Exception | None = None

    def settle(self, answer: executions.Recorded | dict[str, Any] | Exception | None) -> None:
        self.answer, self.is_settled = answer, True


class _Desk:
    """Where the requests of one supervisor process meet."""

    def __init__(self, supervisor: executions.Supervisor) -> None:
        self._supervisor = supervisor
        self._store = threading.Lock()
        self._waiting: deque[_Waiting] = deque()

    def answer(self, mine: _Waiting) -> executions.Recorded | dict[str, Any] | None:
        self._waiting.append(mine)
        with self._store:
            if not mine.is_settled:
                self._settle([self._waiting.popleft() for _ in range(len(self._waiting))])
        if isinstance(mine.answer, Exception):
            raise mine.answer
        return mine.answer

    def _settle(self, group: Sequence[_Waiting]) -> None:
        try:
            self._exchange(group)
        except Exception as error:  # noqa: BLE001 - each of the group raises it in its own request
            for waiting in group:
                waiting.settle(error)

    def _exchange(self, group: Sequence[_Waiting]) -> None:
        states = _of(group, executions.StateReport)
        chunks = _of(group, executions.LogChunk)
        completions = _of(group, executions.Completion)
        claims = [waiting for waiting in group if waiting.report is None]
        answer = executions.exchange(
            self._supervisor,
            states=_reports(states),
            chunks=_reports(chunks),
            completions=_reports(completions),
            claims=len(claims),
        )
        answers: list[executions.Recorded | PlatformError] = [
            *answer.states,
            *answer.chunks,
            *answer.completions,
        ]
        for waiting, one in zip([*states, *chunks, *completions], answers, strict=True):
            waiting.settle(one)
        specs = iter(answer.claimed)
        for waiting in claims:
            waiting.settle(next(specs, None))


def _of(group: Sequence[_Waiting], kind: type[Report]) -> list[_Waiting]:
    return [waiting for waiting in group if isinstance(waiting.report, kind)]


def _reports(group: Sequence[_Waiting]) -> list[Any]:
    return [waiting.report for waiting in group]


_desks: Final[WeakValueDictionary[tuple[str, str], _Desk]] = WeakValueDictionary()
_desks_lock = threading.Lock()


def _desk_of(supervisor: executions.Supervisor) -> _Desk:
    key = (supervisor.agent_id, supervisor.incarnation)
    with _desks_lock:
        desk = _desks.get(key)
        if desk is None:
            desk = _desks[key] = _Desk(supervisor)
        return desk
