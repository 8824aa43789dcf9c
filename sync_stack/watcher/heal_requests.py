"""Ask for a heal, wait, verify (reference: sync-stack 6.5): each step is stored before the next.

The orchestrator writes what has drifted back (`services/execution/rule_sync.py` there).

A new leader finds an attempt under way in the drift record: it waits for the task, or, without
one, calls again with the same key, which gives the same task.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import grpc
import grpc.aio
from msgspec.structs import replace

from kernel import clock, telemetry
from kernel.ids import new_uuid
from kernel.telemetry import FinishedSpan
from kernel.trace_context import TraceContext, new_span
from sync_stack.core.drift import (
    Episode,
    HealState,
    TargetStatus,
    begin_heal,
    end_heal,
    is_unhealed,
    may_heal,
)
from sync_stack.orchestrator.api import Drift, HealRecord, drift, drift_records
from sync_stack.rpc.channel import OrchestratorChannel, call_metadata
from sync_stack.rpc.gen.partita.sync.v1 import orchestrator_pb2 as pb
from sync_stack.watcher.drift_check import CheckOutcome, DriftChecker
from sync_stack.watcher.threads import WatcherThreads

log: Final = logging.getLogger("partita.sync.watcher")
FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 5.0
_TRIES: Final = 10
_CALL_S: Final = 5.0
_FINISHED: Final = frozenset({pb.TASK_STATE_SUCCEEDED, pb.TASK_STATE_FAILED, pb.TASK_STATE_DEAD})


class HealResult(StrEnum):
    """The result of an attempt; the last four are failures, and reasons of the metric."""

    HEALED = "healed"
    SUPERSEDED = "superseded"
    CALL_ERROR = "call_error"
    TASK_FAILED = "task_failed"
    TASK_TIMEOUT = "task_timeout"
    STILL_DRIFTED = "still_drifted"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealAttempt:
    """One attempt as stored; `task_id` is set once the orchestrator has created the task."""

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


@dataclass(kw_only=True)
class Healer:
    checker: DriftChecker
    channel: OrchestratorChannel
    threads: WatcherThreads
    settings: HealSettings
    leads: Callable[[], bool]
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def heal(self, drift_id: str) -> HealResult | None:
        """Make the attempt that is under way, or a new one if it is due; return its result.

        Raises the store's errors; then the attempt is still under way.
        """
        attempt = await self.threads.run(lambda: self._under_way(drift_id) or self.begin(drift_id))
        if attempt is None:
            return None
        span, started_at = new_span(), clock.now()
        ended = await self._outcome(attempt, str(span) if telemetry.is_configured() else "")
        _trace(attempt, ended, span, started_at)
        await self.threads.run(self._end, attempt, ended)
        return ended

    def begin(self, drift_id: str) -> HealAttempt | None:
        """Store a new attempt; return None if it is not due or another watcher was faster."""
        row = drift.episode(drift_id)
        if row is None or row.state not in (Episode.OPEN, Episode.UNHEALED):
            return None
        heal_state, now = self.checker.heal_states.of(row.unit_id), self.checker.now()
        if not may_heal(heal_state, now) or not self.leads():
            return None
        begun = begin_heal(heal_state, now, self.settings.poll_interval_s)
        attempts = drift_records.heal_of(row).attempts + 1
        heal = HealRecord(attempts=attempts, next_attempt_at=_next_attempt(begun))
        if not drift_records.write(row, state=Episode.HEALING.value, heal=heal):
            return None
        self.checker.heal_states.put(row.unit_id, begun)
        self.checker.set_status_of_heal(row.unit_id, TargetStatus.HEALING)
        return self._under_way(drift_id)

    def _under_way(self, drift_id: str) -> HealAttempt | None:
        row = drift.episode(drift_id)
        snapshot = drift.snapshot(row.unit_id) if row is not None else None
        if row is None or snapshot is None or row.state != Episode.HEALING:
            return None
        heal = drift_records.heal_of(row)
        return HealAttempt(
            drift_id=row.id,
            unit_id=row.unit_id,
            number=heal.attempts,
            datasource=row.datasource,
            request=_request(row, snapshot.ledger.destination_id, heal.attempts),
            task_id=heal.last_task_id,
        )

    async def _outcome(self, attempt: HealAttempt, traceparent: str) -> HealResult:
        task_id = attempt.task_id or await self._request_heal(attempt, traceparent)
        if not task_id:
            return HealResult.CALL_ERROR
        until = self.monotonic() + self.settings.task_timeout_s
        task = await self._wait(task_id, until)
        if task is None:
            return HealResult.TASK_TIMEOUT
        if task.state != pb.TASK_STATE_SUCCEEDED:
            return HealResult.TASK_FAILED
        if task.message == HealResult.SUPERSEDED:
            return HealResult.SUPERSEDED
        return await self._verify(attempt, until)

    async def _request_heal(self, attempt: HealAttempt, traceparent: str = "") -> str:
        """Request the heal; return the id of its task, empty if the call failed."""
        self.checker.metrics.heals.labels(attempt.datasource).inc()
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
                "the orchestrator did not accept the heal: %s",
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
            heal = replace(drift_records.heal_of(row), last_task_id=task_id)
            if drift_records.write(row, heal=heal):
                return

    async def _wait(self, task_id: str, until: float) -> Any:
        """Return the task when it has ended; None after the timeout. Failed calls are repeated."""
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

    async def _verify(self, attempt: HealAttempt, until: float) -> HealResult:
        """Check the target until a read succeeds that meets no running sync."""
        while self.monotonic() < until:
            async with self.threads.reading(attempt.unit_id):
                check = await self.threads.check(attempt.unit_id)
            if check.outcome is CheckOutcome.READ:
                return HealResult.STILL_DRIFTED if check.comparison else HealResult.HEALED
            if check.outcome is CheckOutcome.ORPHAN:
                return HealResult.SUPERSEDED
            await self.sleep(LONGEST_WAIT_S)
        return HealResult.TASK_TIMEOUT

    def _end(self, attempt: HealAttempt, ended: HealResult) -> None:
        healed = ended in (HealResult.HEALED, HealResult.SUPERSEDED)
        heal_states, now = self.checker.heal_states, self.checker.now()
        before = heal_states.of(attempt.unit_id)
        heal_state = end_heal(before, now, self.settings.poll_interval_s, healed=healed)
        for _ in range(_TRIES):
            row = drift.episode(attempt.drift_id)
            if row is None or not _is_under_way(row, attempt.number):
                return  # another watcher has ended it
            heal = replace(
                drift_records.heal_of(row),
                last_outcome=ended.value,
                next_attempt_at=_next_attempt(heal_state),
            )
            if _store(row, ended, heal, unhealed=is_unhealed(heal_state)):
                heal_states.put(attempt.unit_id, heal_state)
                self._log_drift(attempt, ended, row)
                if is_unhealed(heal_state) and not is_unhealed(before):
                    log.error(
                        "drift cannot be healed",
                        extra={"event": "drift_unhealed", **_log_fields(attempt, row)},
                    )
                return

    def _log_drift(self, attempt: HealAttempt, ended: HealResult, row: Drift) -> None:
        metrics, datasource = self.checker.metrics, attempt.datasource
        if ended is HealResult.HEALED:
            metrics.verified.labels(datasource).inc()
            self.checker.set_status_of_heal(attempt.unit_id, TargetStatus.IN_SYNC)
        elif ended is not HealResult.SUPERSEDED:
            metrics.failed.labels(datasource, ended.value).inc()
        fields = {"event": "heal_ended", "outcome": ended.value, **_log_fields(attempt, row)}
        log.info("a heal ended: %s", ended.value, extra=fields)


def _trace(
    attempt: HealAttempt, ended: HealResult, span: TraceContext, started_at: datetime
) -> None:
    """Record the root span of a heal: call, task and stages are below it."""
    failed = ended not in (HealResult.HEALED, HealResult.SUPERSEDED)
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
    """Return whether it is still this attempt: another watcher may have ended it."""
    return row.state == Episode.HEALING and drift_records.heal_of(row).attempts == number


def _next_attempt(heal_state: HealState) -> str:
    return clock.rfc3339(heal_state.next_heal_at) if heal_state.next_heal_at else ""


def _store(row: Drift, ended: HealResult, heal: HealRecord, *, unhealed: bool) -> bool:
    match ended:
        case HealResult.HEALED:
            return drift_records.close(row, Episode.HEALED, by="heal", heal=heal)
        case HealResult.SUPERSEDED:
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


def _log_fields(attempt: HealAttempt, row: Drift) -> dict[str, object]:
    return {
        "drift_id": row.id,
        "rule_id": row.rule_id,
        "datasource": row.datasource,
        "env": row.env,
        "repo": row.repo,
        "attempt": attempt.number,
    }
