"""What the agent routes answer beside registrations and step specs; the views make the bodies.

A worker reads less of them (the `…Answer` structs of `kernel.agent_protocol`).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, NotRequired, TypedDict

from drf_spectacular.utils import OpenApiParameter

from apps.agents.api import AgentDocument
from apps.executions.api import CancelReason
from apps.http.rest import page_of
from kernel.wire_types import Instant, one_of

AgentPage: Final = page_of("AgentPage", agents=list[AgentDocument])


class KeptJob(TypedDict):
    jobId: str
    attempt: int
    nextSeq: int
    position: int


class Adoption(TypedDict):
    """Which of its jobs a worker keeps after it registered again."""

    keepJobs: list[KeptJob]
    dropJobs: list[str]


class Registered(AgentDocument, Adoption):
    agentToken: Annotated[str, "shown this once"]
    installationId: Annotated[str, "what the label partita.installation says"]
    heartbeatIntervalMs: int
    leaseMs: int
    leaseGraceMs: Annotated[
        int, "how long a lease that ended may still be renewed before it is lost"
    ]


class Heard(AgentDocument):
    releaseRuns: list[str]


class Removed(TypedDict):
    status: Annotated[str, "`removed`"]


class StopFields(TypedDict):
    """What asks to stop the job (reference: control-plane 15.2)."""

    cancelRequested: NotRequired[bool]
    cancelReason: NotRequired[Annotated[str, one_of(CancelReason)]]


class LeaseAnswer(TypedDict):
    status: Annotated[str, "`running`"]
    cancelRequested: bool
    cancelReason: NotRequired[Annotated[str, one_of(CancelReason)]]
    leaseMs: int
    leaseExpiresAt: Instant
    leaseGraceMs: Annotated[
        int, "how long after its end the lease can still be renewed, as things are now"
    ]


class StateAnswer(StopFields):
    status: Annotated[str, "`recorded`"]


class LogsAnswer(StateAnswer):
    nextSeq: int


class ArtifactAnswer(TypedDict):
    artifactId: str


class CompleteAnswer(TypedDict):
    status: Annotated[str, "`completed`"]


def query(name: str, type_: Any = str, **more: Any) -> OpenApiParameter:
    return OpenApiParameter(name, type_, OpenApiParameter.QUERY, **more)


WHOLE: Final = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}
