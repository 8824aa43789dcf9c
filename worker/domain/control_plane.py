"""The supervisor's port to the control plane (reference: control-plane 15).

ControlPlaneError
├── StaleJob                 409 stale_attempt, or the job is unknown: drop it at once
├── LinesMissing             409 log_gap: continue with `next_seq`
├── Unregistered             the control plane does not know this supervisor: register again
├── RequestRefused           a refusal for another reason: a retry does not help
└── ControlPlaneUnavailable  no answer: a retry may help
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from kernel.agent_protocol import (
    NO_PROBES,
    NO_USAGE,
    AdoptedJob,
    ArtifactUpload,
    Completion,
    Job,
    JobDirective,
    LogChunk,
    ProbeProgress,
    StateReport,
    StepUsage,
)

RENEWALS: Final = 3  # within one lease
FAILING_LOOPS: Final = 20  # named in one heartbeat
LOOP_CHARACTERS: Final = 64  # of a loop's name


class ControlPlaneError(Exception):
    pass


class StaleJob(ControlPlaneError):
    pass


class LinesMissing(ControlPlaneError):
    def __init__(self, next_seq: int) -> None:
        super().__init__(f"the next line expected is {next_seq}")
        self.next_seq = next_seq


class Unregistered(ControlPlaneError):
    pass


class RequestRefused(ControlPlaneError):
    pass


class ControlPlaneUnavailable(ControlPlaneError):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationResult:
    keep: tuple[AdoptedJob, ...] = ()
    drop: tuple[str, ...] = ()  # job ids
    heartbeat_s: float = 10.0
    lease_grace_s: float | None = None  # how long an expired lease may still be renewed


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReport:
    """`failing_loops`: the failing background loops of this process."""

    running_jobs: int
    runtime_available: bool
    runs: tuple[str, ...]
    failing_loops: tuple[str, ...] = ()


class Reports(Protocol):
    """The calls for one job.

    They raise ControlPlaneUnavailable without an answer, StaleJob and RequestRefused.
    """

    # Reports take effect in the order of the calls, even if no answer is awaited between them:
    # short steps then need one round trip.
    in_order: ClassVar[bool]

    async def report(self, report: StateReport) -> JobDirective: ...

    async def send(self, chunk: LogChunk) -> JobDirective:
        """Store the lines that are not stored yet. Raises LinesMissing."""
        ...

    async def complete(self, completion: Completion) -> None:
        """Complete the job; a repetition is no error. Raises LinesMissing."""
        ...

    async def content(self, job: Job) -> bytes:
        """Return the source suite's files, tar+gzip."""
        ...

    async def store(self, job: Job, upload: ArtifactUpload) -> None: ...


class ControlPlane(Reports, Protocol):
    """The control plane of a supervisor. Calls raise ControlPlaneUnavailable without an answer."""

    async def register(
        self, active: Sequence[Job], *, runtime_available: bool
    ) -> RegistrationResult: ...

    async def heartbeat(self, beat: HeartbeatReport) -> Sequence[str]:
        """Return the runs whose resources are to be removed now. Raises Unregistered."""
        ...

    async def claim(self, limit: int) -> Sequence[Mapping[str, Any]]:
        """Wait for 1 to `limit` step specs; may return none after a while."""
        ...

    def renew(
        self,
        jobs: Sequence[Job],
        usage: Mapping[Job, StepUsage] = NO_USAGE,
        probes: Mapping[Job, ProbeProgress] = NO_PROBES,
    ) -> Sequence[JobDirective | None]:
        """Return one answer per job, None for a lost lease. Blocks; callable on any thread."""
        ...

    def on_directive(self, wake: Callable[[], None]) -> None:
        """Call `wake()`, on any thread, when a job may have a new directive."""
        ...

    async def close(self) -> None: ...
