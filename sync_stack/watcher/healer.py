"""Heal → wait → verify (reference: sync-stack 6.5): each step is stored before the next one begins.

A watcher that takes over finds an attempt under way in the drift record: with a task it goes on
waiting, without one it calls again with the same key, which is the same task.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Protocol

import grpc
import grpc.aio

from kernel import clock, telemetry
from kernel.ids import new_uuid
from kernel.telemetry import FinishedSpan
from kernel.trace_context import TraceContext, new_span
from sync_stack.core.drift import (
    Episode,
    TargetStatus,
    heal_begun,
    heal_ended,
    is_unhealed,
    may_heal,
)
from sync_stack.orchestrator.api import Drift, drift, drift_records
from sync_stack.rpc.channel import OrchestratorChannel, call_metadata
from sync_stack.rpc.gen.partita.sync.v1 import orchestrator_pb2 as pb
from sync_stack.watcher.drift_check import DriftChecker, DriftCheckResult, Outcome

log: Final = logging.getLogger("partita.sync.watcher")
FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 5.0
_TRIES: Final = 10
_CALL_S: Final = 5.0
_FINISHED: Final = frozenset({pb.TASK_STATE_SUCCEEDED, pb.TASK_STATE_FAILED, pb.TASK_STATE_DEAD})


class Ended(StrEnum):
    """How an attempt ended; the last four are failures and their names the metric's reasons."""

    HEALED = "healed"
    SUPERSEDED = "superseded"
    CALL_ERROR = "call_error"
    TASK_FAILED = "task_failed"
    TASK_TIMEOUT = "task_timeout"
    STILL_DRIFTED = "still_drifted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt as it is stored; `task_id` once the orchestrator has given one."""

    drift_id: str
    unit_id: str
    number: int
    datasource: str
    request: pb.TriggerSyncRequest
    task_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealSettings:
    call_timeout_s: float = 30.0
    task_timeout_s: float = 300.0
    poll_interval_s: float = 60.0
    token: str = ""


class Threads(Protocol):
    """Blocking calls of the process; `reading` bounds how many sinks are read at once."""

    async def run(self, act: Callable[..., Any], *args: Any) -> Any: ...

    def reading(self, unit_id: str) -> AbstractAsyncContextManager[None]: ...

    async def look(self, unit_id: str) -> DriftCheckResult: ...


@dataclass(kw_only=True)
class Healer:
    looker: DriftChecker
    channel: OrchestratorChannel
    threads: Threads
    settings: HealSettings
    leads: Callable[[], bool]
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def heal(self, drift_id: str) -> Ended | None:
        """A new attempt, if the episode may have one now; or the one that is under way.

        Raises the store's errors; then the attempt is still under way.
        """
        attempt = await self.threads.run(self._attempt, drift_id)
        if attempt is None:
            return None
        span, started_at = new_span(), clock.now()
        ended = await self._outcome(attempt, str(span) if telemetry.is_configured() else "")
        _trace(attempt, ended, span, started_at)
        await self.threads.run(self._end, attempt, ended)
        return ended

    def _attempt(self, drift_id: str) -> Attempt | None:
        return self._under_way(drift_id) or self.begin(drift_id)

    def begin(self, drift_id: str) -> Attempt | None:
        """Store the attempt; None when it is not due or another watcher was faster."""
        row = drift.episode(drift_id)
        if row is None or row.state not in (Episode.OPEN, Episode.UNHEALED):
            return None
        memory, now = self.looker.memories.of(row.unit_id), self.looker.now()
        if not may_heal(memory, now) or not self.leads():
            return None
        begun = heal_begun(memory, now, self.settings.poll_interval_s)
        heal = {"attempts": row.heal.get("attempts", 0) + 1}
        if begun.next_heal_at is not None:
            heal["next_attempt_at"] = clock.rfc3339(begun.next_heal_at)
        if not drift_records.write(row, state=Episode.HEALING.value, heal=heal):
            return None
        self.looker.memories.put(row.unit_id, begun)
        self.looker.shift(row.unit_id, TargetStatus.HEALING)
        return self._under_way(drift_id)

    def _under_way(self, drift_id: str) -> Attempt | None:
        row = drift.episode(drift_id)
        seen = drift.snapshot(row.unit_id) if row is not None else None
        if row is None or seen is None or row.state != Episode.HEALING:
            return None
        number = row.heal.get("attempts", 0)
        return Attempt(
            drift_id=row.id,
            unit_id=row.unit_id,
            number=number,
            datasource=row.datasource,
            request=_request(row, seen.ledger.destination_id, number),
            task_id=row.heal.get("last_task_id", ""),
        )

    async def _outcome(self, attempt: Attempt, traceparent: str) -> Ended:
        task_id = attempt.task_id or await self._call(attempt, traceparent)
        if not task_id:
            return Ended.CALL_ERROR
        until = self.monotonic() + self.settings.task_timeout_s
        task = await self._wait(task_id, until)
        if task is None:
            return Ended.TASK_TIMEOUT
        if task.state != pb.TASK_STATE_SUCCEEDED:
            return Ended.TASK_FAILED
        if task.message == Ended.SUPERSEDED:
            return Ended.SUPERSEDED
        return await self._verify(attempt, until)

    async def _call(self, attempt: Attempt, traceparent: str = "") -> str:
        """The task's id; empty when the call failed."""
        self.looker.metrics.heals.labels(attempt.datasource).inc()
        correlation = attempt.request.correlation_id
        metadata = call_metadata(
            correlation_id=correlation, traceparent=traceparent, token=self.settings.token
        )
        try:
            answer = await self.channel.stub.TriggerSync(
                attempt.request, timeout=self.settings.call_timeout_s, metadata=metadata
            )
        except grpc.aio.AioRpcError as error:
            log.warning(
                "the orchestrator did not take the heal: %s",
                error.details(),
                extra={
                    "event": "heal_call_failed",
                    "drift_id": attempt.drift_id,
                    "status": error.code().name,
                },
            )
            return ""
        await self.threads.run(self._note_task, attempt.drift_id, attempt.number, answer.task_id)
        return str(answer.task_id)

    def _note_task(self, drift_id: str, number: int, task_id: str) -> None:
        for _ in range(_TRIES):
            row = drift.episode(drift_id)
            if row is None or not _is_under_way(row, number):
                return
            if drift_records.write(row, heal={**row.heal, "last_task_id": task_id}):
                return

    async def _wait(self, task_id: str, until: float) -> Any:
        """The task when it is over; None when that takes too long. A lost call is repeated."""
        pause = FIRST_WAIT_S
        metadata = call_metadata(token=self.settings.token)
        while self.monotonic() < until:
            try:
                task = await self.channel.stub.GetTask(
                    pb.GetTaskRequest(task_id=task_id), timeout=_CALL_S, metadata=metadata
                )
                if task.state in _FINISHED:
                    return task
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.NOT_FOUND:
                    return pb.Task(task_id=task_id, state=pb.TASK_STATE_FAILED)
            await self.sleep(pause)
            pause = min(pause * 2, LONGEST_WAIT_S)
        return None

    async def _verify(self, attempt: Attempt, until: float) -> Ended:
        """By a live read; one that fails, or meets a sync at work, says nothing."""
        while self.monotonic() < until:
            async with self.threads.reading(attempt.unit_id):
                look = await self.threads.look(attempt.unit_id)
            if look.outcome is Outcome.READ:
                return Ended.STILL_DRIFTED if look.comparison else Ended.HEALED
            if look.outcome is Outcome.ORPHAN:
                return Ended.SUPERSEDED
            await self.sleep(LONGEST_WAIT_S)
        return Ended.TASK_TIMEOUT

    def _end(self, attempt: Attempt, ended: Ended) -> None:
        healed = ended in (Ended.HEALED, Ended.SUPERSEDED)
        memories, now = self.looker.memories, self.looker.now()
        before = memories.of(attempt.unit_id)
        memory = heal_ended(before, now, self.settings.poll_interval_s, healed=healed)
        for _ in range(_TRIES):
            row = drift.episode(attempt.drift_id)
            if row is None or not _is_under_way(row, attempt.number):
                return  # another watcher has ended it
            heal = {**row.heal, "last_outcome": ended.value}
            if memory.next_heal_at is not None:
                heal["next_attempt_at"] = clock.rfc3339(memory.next_heal_at)
            if _stored(row, ended, heal, unhealed=is_unhealed(memory)):
                memories.put(attempt.unit_id, memory)
                self._tell(attempt, ended, row)
                if is_unhealed(memory) and not is_unhealed(before):
                    log.error(
                        "drift cannot be healed",
                        extra={"event": "drift_unhealed", **_named(attempt, row)},
                    )
                return

    def _tell(self, attempt: Attempt, ended: Ended, row: Drift) -> None:
        metrics, datasource = self.looker.metrics, attempt.datasource
        if ended is Ended.HEALED:
            metrics.verified.labels(datasource).inc()
            self.looker.shift(attempt.unit_id, TargetStatus.IN_SYNC)
        elif ended is not Ended.SUPERSEDED:
            metrics.failed.labels(datasource, ended.value).inc()
        fields = {"event": "heal_ended", "outcome": ended.value, **_named(attempt, row)}
        log.info("a heal ended: %s", ended.value, extra=fields)


def _trace(attempt: Attempt, ended: Ended, span: TraceContext, started_at: datetime) -> None:
    """The root of the trace of a heal: the call, its task and the stages lie below it."""
    failed = ended not in (Ended.HEALED, Ended.SUPERSEDED)
    telemetry.record(
        FinishedSpan(
            name="sync.heal",
            context=span,
            parent_id="",
            started_at=started_at,
            ended_at=clock.now(),
            attributes={
                "sync.drift_id": attempt.drift_id,
                "sync.datasource": attempt.datasource,
                "sync.attempt": attempt.number,
                "sync.outcome": ended.value,
            },
            error=ended.value if failed else "",
        )
    )


def _is_under_way(row: Drift, number: int) -> bool:
    """Whether it is still this attempt: another watcher may have ended it, and begun the next."""
    return row.state == Episode.HEALING and row.heal.get("attempts", 0) == number


def _stored(row: Drift, ended: Ended, heal: dict[str, Any], *, unhealed: bool) -> bool:
    match ended:
        case Ended.HEALED:
            return drift_records.close(row, Episode.HEALED, by="heal", heal=heal)
        case Ended.SUPERSEDED:
            return drift_records.close(row, Episode.SUPERSEDED, by="sync", heal=heal)
        case _:
            state = Episode.UNHEALED if unhealed else Episode.OPEN
            return drift_records.write(row, state=state.value, heal=heal)


def _request(row: Drift, destination_id: str, number: int) -> pb.TriggerSyncRequest:
    text = "\n".join(("heal-v1", row.unit_id, str(row.generation), row.id, str(number)))
    return pb.TriggerSyncRequest(
        datasource=row.datasource,
        platform=row.platform,
        tenant=row.tenant,
        env=row.env,
        reason="drift",
        rule_id=row.rule_id,
        repo=row.repo,
        ref=row.ref,
        commit=row.commit,
        destination_id=destination_id,
        generation=row.generation,
        delivery_id=row.id,
        idempotency_key=hashlib.sha256(text.encode()).hexdigest(),
        correlation_id=str(new_uuid()),
    )


def _named(attempt: Attempt, row: Drift) -> dict[str, Any]:
    return {
        "drift_id": row.id,
        "rule_id": row.rule_id,
        "datasource": row.datasource,
        "env": row.env,
        "repo": row.repo,
        "attempt": attempt.number,
    }
