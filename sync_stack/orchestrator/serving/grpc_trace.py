"""The span of a gRPC call, below the `traceparent` of its metadata."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernel import clock, telemetry
from kernel.telemetry import FinishedSpan
from kernel.trace_context import new_span, parse_traceparent


@contextmanager
def traced(method: str, context: Any) -> Iterator[str]:
    """The `traceparent` for what the call sets off: its own span, or, untraced, the caller's."""
    metadata = dict(context.invocation_metadata() or ())
    parent = parse_traceparent(str(metadata.get("traceparent", "")))
    if not telemetry.is_configured():
        yield str(parent or "")
        return
    span, started_at, error = new_span(below=parent), clock.now(), "error"
    try:
        yield str(span)
        error = ""
    finally:
        telemetry.record(
            FinishedSpan(
                name=f"partita.sync.v1.Orchestrator/{method}",
                context=span,
                parent_id=parent.span_id if parent else "",
                started_at=started_at,
                ended_at=clock.now(),
                attributes={"rpc.system": "grpc", "rpc.method": method},
                error=error,
            )
        )
