"""The span of a gRPC call, below the `traceparent` that came with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernel import clock, telemetry
from kernel.telemetry import FinishedSpan
from kernel.trace_context import new_span, parse_traceparent


class CallSpan:
    """One call, or one delivery of a stream; anything else than a traceparent counts as none.

    `traceparent` is for what the call sets off: its own span, or, untraced, the caller's.
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
def traced(method: str, context: Any) -> Iterator[str]:
    """Yield the `traceparent` for what the call sets off; its metadata holds the caller's."""
    metadata = dict(context.invocation_metadata() or ())
    span, error = CallSpan(method, str(metadata.get("traceparent", ""))), "error"
    try:
        yield span.traceparent
        error = ""
    finally:
        span.end(error=error)
