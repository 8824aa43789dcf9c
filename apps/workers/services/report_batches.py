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


def record(supervisor: executions.SupervisorSession, report: Report) -> executions.Recorded:
    """Raises StaleAttempt, LogGap, JobNotFound, InvalidInput, DatastoreUnavailable."""
    answer = _batcher_of(supervisor).answer(_PendingRequest(report))
    if not isinstance(answer, executions.Recorded):
        raise TypeError("a report is recorded or refused")
    return answer


def claim(supervisor: executions.SupervisorSession) -> dict[str, Any] | None:
    """The spec of one step, or None when there is none for this supervisor now."""
    answer = _batcher_of(supervisor).answer(_PendingRequest(None))
    return answer if isinstance(answer, dict) else None


@dataclass(eq=False, slots=True)
class _PendingRequest:
    """`report` None: a claim. Settled by whichever thread takes it along."""

    report: Report | None
    is_settled: bool = False
    answer: executions.Recorded | dict[str, Any] | Exception | None = None

    def settle(self, answer: executions.Recorded | dict[str, Any] | Exception | None) -> None:
        self.answer, self.is_settled = answer, True


class _Batcher:
    """Where the requests of one supervisor process meet."""

    def __init__(self, supervisor: executions.SupervisorSession) -> None:
        self._supervisor = supervisor
        self._store = threading.Lock()
        self._waiting: deque[_PendingRequest] = deque()

    def answer(self, mine: _PendingRequest) -> executions.Recorded | dict[str, Any] | None:
        self._waiting.append(mine)
        with self._store:
            if not mine.is_settled:
                self._settle([self._waiting.popleft() for _ in range(len(self._waiting))])
        if isinstance(mine.answer, Exception):
            raise mine.answer
        return mine.answer

    def _settle(self, group: Sequence[_PendingRequest]) -> None:
        try:
            self._exchange(group)
        except Exception as error:  # noqa: BLE001 - each of the group raises it in its own request
            for waiting in group:
                waiting.settle(error)

    def _exchange(self, group: Sequence[_PendingRequest]) -> None:
        states = _of(group, executions.StateReport)
        chunks = _of(group, executions.LogChunk)
        completions = _of(group, executions.Completion)
        claims = [waiting for waiting in group if waiting.report is None]
        answer = executions.record_reports(
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


def _of(group: Sequence[_PendingRequest], kind: type[Report]) -> list[_PendingRequest]:
    return [waiting for waiting in group if isinstance(waiting.report, kind)]


def _reports(group: Sequence[_PendingRequest]) -> list[Any]:
    return [waiting.report for waiting in group]


_batchers: Final[WeakValueDictionary[tuple[str, str], _Batcher]] = WeakValueDictionary()
_batchers_lock = threading.Lock()


def _batcher_of(supervisor: executions.SupervisorSession) -> _Batcher:
    key = (supervisor.agent_id, supervisor.incarnation)
    with _batchers_lock:
        desk = _batchers.get(key)
        if desk is None:
            desk = _batchers[key] = _Batcher(supervisor)
        return desk
