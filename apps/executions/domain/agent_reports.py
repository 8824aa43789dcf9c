"""Results of agent reports and claims, and the reasons to refuse them.

(reference: control-plane 15)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kernel.agent_protocol import AdoptedJob, JobDirective, StepSpecBody
from kernel.errors import NotFound, PlatformError


class StaleAttempt(PlatformError):
    """Another attempt is current, another supervisor holds it, or the job is over."""

    code = "stale_attempt"

    def __init__(
        self, detail: str = "this attempt is no longer current, or another supervisor holds it"
    ) -> None:
        super().__init__(detail)


class LogGap(PlatformError):
    """Lines are missing; `nextSeq` of the problem is the number of the next expected line."""

    code = "log_gap"

    def __init__(self, next_seq: int) -> None:
        super().__init__(
            f"lines are missing: expected line {next_seq} next", members={"nextSeq": next_seq}
        )
        self.next_seq = next_seq


class JobNotFound(NotFound):
    code = "job_not_found"

    def __init__(self) -> None:
        super().__init__("job not found")


class ContentNotFound(NotFound):
    def __init__(self) -> None:
        super().__init__("the suite of this step has no files")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobToStop:
    """A job of `agent_id` that must stop; `run_is_over`: its whole run can be removed."""

    agent_id: str
    job_id: str
    run_is_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSession:
    """A process of a supervisor, which makes a call.

    `kinds` are backend kinds; empty `capabilities` mean every step kind. `starts_ahead`: how many
    steps it wants to hear of that may come next.
    """

    agent_id: str
    incarnation: str
    kinds: tuple[str, ...]
    backends: tuple[str, ...]
    capabilities: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    starts_ahead: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded(JobDirective):
    """The result of a report; `next_seq`: the number of the next expected line."""

    next_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportBatchResult:
    """One entry per report, in order: `Recorded` or the reason to refuse it; and claimed specs."""

    states: tuple[Recorded | PlatformError, ...] = ()
    chunks: tuple[Recorded | PlatformError, ...] = ()
    completions: tuple[Recorded | PlatformError, ...] = ()
    claimed: tuple[StepSpecBody, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease(JobDirective):
    """A renewed lease; `lease_grace_s` is never None."""

    status: str
    lease_ms: int
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    keep: tuple[AdoptedJob, ...]
    drop: tuple[str, ...]
