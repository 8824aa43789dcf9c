"""Remote workers: their registration and removal, and their reports and claims in batches.

Concurrent reports and claims of one worker share a transaction: the thread that holds the worker's
lock also sends the requests that arrived during the previous transaction; their threads then find
the answers. Different workers do not wait for one another. (reference: control-plane 15)
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from weakref import WeakValueDictionary

from apps.agents import api as agents
from apps.executions import api as executions
from kernel.agent_protocol import Completion, Job, LogChunk, Report, StateReport, StepSpecBody
from kernel.errors import PlatformError

BACKEND_KINDS: Final = ("remote-agent",)


def supervisor_of(agent: agents.Agent) -> executions.SupervisorSession:
    """Return the worker as executions see it; it serves only `remote-agent` backends."""
    return executions.SupervisorSession(
        agent_id=agent.agent_id,
        incarnation=agent.incarnation,
        kinds=BACKEND_KINDS,
        backends=agent.backends,
        capabilities=agent.capabilities,
        labels=agent.labels,
    )


def register_worker(
    registration: agents.Registration, active: Sequence[Job]
) -> tuple[agents.Registered, executions.Adopted]:
    """Register a worker: its earlier token is void, and jobs not in `active` expire."""
    registered = agents.register(registration)
    return registered, executions.adopt(supervisor_of(registered.agent), active)


def remove_agent(agent_id: str) -> None:
    """Remove the agent's token, then expire its jobs; no effect for an unknown agent.

    Raise RunnerOnline for a runner that is at work.
    """
    agents.remove_by_hand(agent_id)
    executions.expire_jobs_of(agent_id)


def record(supervisor: executions.SupervisorSession, report: Report) -> executions.Recorded:
    """Raises StaleAttempt, LogGap, JobNotFound, InvalidInput, DatastoreUnavailable."""
    answer = _batcher_of(supervisor).answer(_PendingRequest(report))
    if not isinstance(answer, executions.Recorded):
        raise TypeError("a report is recorded or refused")
    return answer


def claim(
    supervisor: executions.SupervisorSession, *, starts_ahead: int = 0
) -> StepSpecBody | None:
    """Return the spec of one step, or None if there is none for this supervisor now.

    With it come up to `starts_ahead` specs of steps that may come next.
    """
    answer = _batcher_of(supervisor).answer(_PendingRequest(None, starts_ahead))
    return answer if isinstance(answer, dict) else None


@dataclass(eq=False, slots=True)
class _PendingRequest:
    """A report or a claim (`report` None); the thread that sends the batch answers it."""

    report: Report | None
    starts_ahead: int = 0
    is_answered: bool = False
    answer: executions.Recorded | StepSpecBody | Exception | None = None

    def resolve(self, answer: executions.Recorded | StepSpecBody | Exception | None) -> None:
        self.answer, self.is_answered = answer, True


class _Batcher:
    """Batches the requests of one supervisor process."""

    def __init__(self, supervisor: executions.SupervisorSession) -> None:
        self._supervisor = supervisor
        self._store = threading.Lock()
        self._waiting: deque[_PendingRequest] = deque()

    def answer(self, mine: _PendingRequest) -> executions.Recorded | StepSpecBody | None:
        self._waiting.append(mine)
        with self._store:
            if not mine.is_answered:
                self._send([self._waiting.popleft() for _ in range(len(self._waiting))])
        if isinstance(mine.answer, Exception):
            raise mine.answer
        return mine.answer

    def _send(self, batch: Sequence[_PendingRequest]) -> None:
        try:
            self._exchange(batch)
        except Exception as error:  # noqa: BLE001 - each request of the batch raises it
            for request in batch:
                request.resolve(error)

    def _exchange(self, batch: Sequence[_PendingRequest]) -> None:
        states = _of(batch, StateReport)
        chunks = _of(batch, LogChunk)
        completions = _of(batch, Completion)
        claims = [request for request in batch if request.report is None]
        starts_ahead = max((each.starts_ahead for each in claims), default=0)
        answer = executions.record_reports(
            replace(self._supervisor, starts_ahead=starts_ahead),
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
        for request, one in zip([*states, *chunks, *completions], answers, strict=True):
            request.resolve(one)
        specs = iter(answer.claimed)
        for request in claims:
            request.resolve(next(specs, None))


def _of(batch: Sequence[_PendingRequest], kind: type[Report]) -> list[_PendingRequest]:
    return [request for request in batch if isinstance(request.report, kind)]


def _reports(batch: Sequence[_PendingRequest]) -> list[Any]:
    return [request.report for request in batch]


_batchers: Final[WeakValueDictionary[tuple[str, str], _Batcher]] = WeakValueDictionary()
_batchers_lock = threading.Lock()


def _batcher_of(supervisor: executions.SupervisorSession) -> _Batcher:
    key = (supervisor.agent_id, supervisor.incarnation)
    with _batchers_lock:
        desk = _batchers.get(key)
        if desk is None:
            desk = _batchers[key] = _Batcher(supervisor)
        return desk
