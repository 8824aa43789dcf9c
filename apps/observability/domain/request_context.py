"""Facts about the request that is being answered, for logs, spans, audit and problems."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from kernel.trace_context import TraceContext

UNMATCHED = "unmatched"


@dataclass(slots=True, kw_only=True)
class RequestContext:
    """Filled in stage by stage (reference: control-plane 2); `None` means not known, or nobody.

    `route` is the pattern `/api/v1/suites/{suiteId}`, or `unmatched`. `trace`: the span of this
    request; without telemetry that of the caller, which what it starts may join. `note`: what the
    audit record says beside.
    """

    request_id: str = ""
    route: str = UNMATCHED
    user_id: str | None = None
    workspace_id: str | None = None
    is_admin: bool | None = None
    agent_id: str | None = None
    note: str = ""
    trace: TraceContext | None = None


_current: ContextVar[RequestContext | None] = ContextVar("partita_request", default=None)


def request_context() -> RequestContext:
    """The facts of the current request; outside of one, blank facts that nobody else sees."""
    return _current.get() or RequestContext()


def enter_request(context: RequestContext) -> None:
    """Every request is answered in a task of its own, so nothing has to be set back."""
    _current.set(context)


def is_awaited() -> bool:
    """Return whether an HTTP request or a probe waits for what runs here, on any thread."""
    return _current.get() is not None


def audit_agent(agent_id: str) -> None:
    """Name the agent whose credential the current request carried, for its audit record."""
    request_context().agent_id = agent_id
