"""Messages between supervisors and the control plane (reference: control-plane 15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kernel.errors import NotFound, PlatformError


class StaleAttempt(PlatformError):
    """Another attempt is current, another supervisor holds it, or the job is over."""

    code = "stale_attempt"

    def __init__(self, detail: str = "this attempt is not yours, or no longer current") -> None:
        super().__init__(detail)


class LogGap(PlatformError):
    """Lines are missing; `nextSeq` of the problem is the number of the next expected line."""

    code = "log_gap"

    def __init__(self, next_seq: int) -> None:
        super().__init__(
            f"lines are missing: the next one expected is {next_seq}", members={"nextSeq": next_seq}
        )
        self.next_seq = next_seq


class JobNotFound(NotFound):
    code = "job_not_found"

    def __init__(self) -> None:
        super().__init__("there is no job of that id")


class ContentNotFound(NotFound):
    def __init__(self) -> None:
        super().__init__("the step's suite has no files")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobToStop:
    """A job of `agent_id` that must stop; `run_is_over`: its whole run can be removed."""

    agent_id: str
    job_id: str
    run_is_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSession:
    """A process of a supervisor, which makes a call.

    `kinds` are backend kinds; empty `capabilities` mean every step kind.
    """

    agent_id: str
    incarnation: str
    kinds: tuple[str, ...]
    backends: tuple[str, ...]
    capabilities: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepUsage:
    cpu_percent: float | None = None
    memory_bytes: int | None = None
    memory_peak_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateReport:
    """`state`: `image-pull`, `running` (container started), `healthy` (services), `adopted`."""

    job_id: str
    attempt: int
    state: str
    message: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LogLine:
    """`time` is aware; `level`: info, warn, error, debug; `kind`: output, system, metric."""

    time: datetime
    level: str
    kind: str
    text: str
    continued: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Lines in order; `seq` numbers the first of them, from 0 in each attempt.

    `position`: records of the runtime's log taken so far.
    """

    job_id: str
    attempt: int
    seq: int
    position: int
    lines: Sequence[LogLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """`status`: succeeded, failed, canceled, or empty: failed when `error` is non-empty."""

    job_id: str
    attempt: int
    status: str = ""
    error: str = ""
    reason: str = ""
    exit_code: int | None = None
    final_seq: int | None = None
    usage: StepUsage | None = None

    @property
    def outcome(self) -> str:
        return self.status or ("failed" if self.error else "succeeded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """`cancel_reason` is non-empty when the supervisor must stop the job."""

    next_seq: int
    cancel_reason: str = ""

    @property
    def cancel_requested(self) -> bool:
        return bool(self.cancel_reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportBatchResult:
    """One entry per report, in order: `Recorded` or the reason to refuse it; and claimed specs."""

    states: tuple[Recorded | PlatformError, ...] = ()
    chunks: tuple[Recorded | PlatformError, ...] = ()
    completions: tuple[Recorded | PlatformError, ...] = ()
    claimed: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    job_id: str
    attempt: int
    usage: StepUsage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """`grace_ms`: how long after its end it can be renewed at present."""

    status: str
    cancel_reason: str
    lease_ms: int
    expires_at: datetime
    grace_ms: int

    @property
    def cancel_requested(self) -> bool:
        return bool(self.cancel_reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveJob:
    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptJob:
    """A job that continues at line `next_seq` and after `position` records of the runtime's log."""

    job_id: str
    attempt: int
    next_seq: int
    position: int
    spec: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    keep: tuple[KeptJob, ...]
    drop: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactUpload:
    path: str
    name: str
    format: str
    on: str
    media_type: str
    body: bytes
