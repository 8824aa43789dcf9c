"""Messages and spans of the gRPC interface (reference: sync-stack 3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from kernel import clock, telemetry
from kernel.telemetry import FinishedSpan
from kernel.trace_context import new_span, parse_traceparent
from sync_stack.orchestrator.domain.task_documents import StoredError, TargetOutcome, TaskResult
from sync_stack.orchestrator.models import Task
from sync_stack.rpc.gen.partita.sync.v1 import orchestrator_pb2 as pb

_TARGET_FIELDS: Final = (
    *("rule_id", "repo", "ref", "env", "datasource", "destination", "commit", "outcome"),
    *("sync_mode", "generation", "written", "pruned", "unchanged", "restored"),
)


class CallSpan:
    """The span of a call, or of one delivery of a stream, below a valid `traceparent`.

    `traceparent` is for the work that the call causes: its own span, or, untraced, the caller's.
    """

    def __init__(self, method: str, sent: str) -> None:
        self._method = method
        self._parent = parse_traceparent(sent)
        self._traced = telemetry.is_configured()
        if self._traced:
            self._span, self._started_at = new_span(below=self._parent), clock.now()
        self.traceparent = str(self._span if self._traced else self._parent or "")

    def end(self, *, error: str = "") -> None:
        if not self._traced:
            return
        telemetry.record(
            FinishedSpan(
                name=f"partita.sync.v1.Orchestrator/{self._method}",
                context=self._span,
                parent_id=self._parent.span_id if self._parent else "",
                started_at=self._started_at,
                ended_at=clock.now(),
                attributes={"rpc.system": "grpc", "rpc.method": self._method},
                error=error,
            )
        )


@contextmanager
def trace_call(method: str, context: Any) -> Iterator[str]:
    """Yield the `traceparent` for the work of a call; its metadata holds the caller's."""
    metadata = dict(context.invocation_metadata() or ())
    span, error = CallSpan(method, str(metadata.get("traceparent", ""))), "error"
    try:
        yield span.traceparent
        error = ""
    finally:
        span.end(error=error)


def state_of(task: Task) -> Any:
    return pb.TaskState.Value(f"TASK_STATE_{task.state}")


def task_message(task: Task) -> Any:
    message = pb.Task(
        task_id=task.id,
        state=state_of(task),
        message=task.message,
        duration_ms=task.duration_ms,
        kind=task.kind,
        attempt=task.attempt,
        max_attempts=task.max_attempts,
        correlation_id=task.correlation_id,
        delivery_id=task.delivery_id,
        idempotency_key=task.idempotency_key,
        targets=[_target(target) for target in TaskResult.of(task.result).targets],
    )
    for name in ("created_at", "started_at", "finished_at", "next_attempt_at"):
        if instant := getattr(task, name):
            getattr(message, name).FromDatetime(instant)
    if task.error:
        message.error.CopyFrom(_error(StoredError.of(task.error)))
    return message


def _error(error: StoredError) -> pb.TaskError:
    return pb.TaskError(**msgspec.to_builtins(error))


def _target(target: TargetOutcome) -> pb.TaskTarget:
    message = pb.TaskTarget(**{name: getattr(target, name) for name in _TARGET_FIELDS})
    if target.error:
        message.error.CopyFrom(_error(target.error))
    return message
