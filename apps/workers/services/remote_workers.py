"""Remote workers: their registration and removal, and their reports and claims in batches.

Concurrent reports and claims of one worker share a transaction: the thread that holds the worker's
lock also sends the requests that arrived during the previous transaction; their threads then find
the answers. Different workers do not wait for one another. A claim that waits goes with the next
completions of its worker, so that a step follows the one before it within one transaction
(decision 0063). (reference: control-plane 15)
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
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
        self._claims: list[WaitingClaim] = []

    def answer(self, mine: _PendingRequest) -> executions.Recorded | StepSpecBody | None:
        self._waiting.append(mine)
        with self._store:
            if not mine.is_answered:
                self._send([self._waiting.popleft() for _ in range(len(self._waiting))])
        if isinstance(mine.answer, Exception):
            raise mine.answer
        return mine.answer

    def keep(self, claim: WaitingClaim) -> None:
        """Let the claim wait for completions, unless its client has left."""
        with self._store:
            if not claim.has_left:
                self._claims.append(claim)

    def take_back(self, claim: WaitingClaim) -> StepSpecBody | None:
        """Let the claim wait no longer, and return the step that it got meanwhile."""
        with self._store:
            if claim in self._claims:
                self._claims.remove(claim)
            spec, claim.given = claim.given, None
            return spec

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
        kept = list(self._claims) if completions else []
        wishes = [each.starts_ahead for each in claims] + [each.starts_ahead for each in kept]
        answer = executions.record_reports(
            replace(self._supervisor, starts_ahead=max(wishes, default=0)),
            states=_reports(states),
            chunks=_reports(chunks),
            completions=_reports(completions),
            claims=len(claims) + len(kept),
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
        for claim, spec in zip(kept, specs, strict=False):
            self._claims.remove(claim)
            claim.give(spec)


class WaitingClaim:
    """A claim of one client, which may wait; `wake` is called once it has got a step.

    The specs of up to `starts_ahead` steps that may come next come with the step.
    """

    def __init__(
        self,
        supervisor: executions.SupervisorSession,
        *,
        starts_ahead: int = 0,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._batcher = _batcher_of(supervisor)
        self._wake = wake
        self.starts_ahead = starts_ahead
        self.given: StepSpecBody | None = None
        self.has_left = False

    def give(self, spec: StepSpecBody) -> None:
        self.given = spec
        self._wake()

    def take(self) -> StepSpecBody | None:
        """Return the step that came with a completion; the claim does not wait any longer."""
        return self._batcher.take_back(self)

    def claim(self, *, waits: bool) -> StepSpecBody | None:
        """Return the spec of one step, or None if there is none now; then it may wait."""
        answer = self._batcher.answer(_PendingRequest(None, self.starts_ahead))
        if isinstance(answer, dict):
            return answer
        if waits:
            self._batcher.keep(self)
        return None

    def leave(self) -> StepSpecBody | None:
        """End the claim of a client that has left; return the step that nobody will read."""
        self.has_left = True
        return self.take()


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
