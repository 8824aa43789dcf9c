"""The port to the control plane (reference: control-plane 15), as the supervisor needs it.

ControlPlaneError
├── StaleJob          409 stale_attempt, or the job is unknown: drop it at once
├── LinesMissing      409 log_gap: go on with `next_seq`
├── Unregistered      the control plane does not know this supervisor: register again
├── Refused           it says no for another reason; to repeat does not help
└── ControlPlaneUnavailable  no answer now; to repeat may help
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final, Protocol

from worker.domain.output import StepLogLine
from worker.domain.runtime import UnitUsage

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
class Job:
    """One attempt of a step, as reports name it."""

    job_id: str
    attempt: int


NO_USAGE: Final[Mapping[Job, UnitUsage]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedJob:
    """A job to go on with: `next_seq` is the next line's number, `position` the records taken."""

    job: Job
    next_seq: int
    position: int
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationResult:
    keep: tuple[AdoptedJob, ...] = ()
    drop: tuple[str, ...] = ()  # job ids
    heartbeat_s: float = 10.0
    lease_grace_s: float | None = None  # how long a lease that ended may still be renewed


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReport:
    """`failing_loops`: background loops of this process; one heartbeat without them clears them."""

    running_jobs: int
    runtime_available: bool
    runs: tuple[str, ...]
    failing_loops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDirective:
    """An empty reason: go on. Else stop: canceled, teardown, detach or timeout.

    `lease_grace_s`: with a renewal, how long after its end the lease can still be renewed.
    """

    cancel_reason: str = ""
    lease_grace_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChunk:
    """Lines from `seq` on; `position`: the runtime's records that all lines so far cover."""

    seq: int
    position: int
    lines: Sequence[StepLogLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """`status`: succeeded, failed or canceled."""

    status: str
    reason: str = ""
    error: str = ""
    exit_code: int | None = None
    usage: UnitUsage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    path: str
    name: str
    format: str
    on: str
    media_type: str
    body: bytes


class Reports(Protocol):
    """What is said of a job, and asked for it.

    Calls raise ControlPlaneUnavailable without an answer, StaleJob and RequestRefused.
    """

    # What is said of a job counts in the order in which the calls were made, also when nobody waits
    # for the answer to one before making the next: short steps then need one round trip.
    in_order: ClassVar[bool]

    async def report(self, job: Job, state: str, message: str = "") -> JobDirective:
        """`state`: image-pull, running, healthy or adopted."""
        ...

    async def send(self, job: Job, chunk: LineChunk) -> JobDirective:
        """Lines stored before are ignored. Raises LinesMissing."""
        ...

    async def complete(self, job: Job, outcome: JobOutcome, *, final_seq: int) -> None:
        """The same again is no error. Raises LinesMissing."""
        ...

    async def content(self, job: Job) -> bytes:
        """The source suite's files, tar+gzip."""
        ...

    async def store(self, job: Job, upload: Upload) -> None: ...


class ControlPlane(Reports, Protocol):
    """Whom a supervisor works for. Calls raise ControlPlaneUnavailable without an answer."""

    async def register(
        self, active: Sequence[Job], *, runtime_available: bool
    ) -> RegistrationResult: ...

    async def heartbeat(self, beat: HeartbeatReport) -> Sequence[str]:
        """The runs whose resources are to be removed now. Raises Unregistered."""
        ...

    async def claim(self, limit: int) -> Sequence[Mapping[str, Any]]:
        """Waits until there is work: 1 to `limit` step specs; may answer none after a while."""
        ...

    def renew(
        self, jobs: Sequence[Job], usage: Mapping[Job, UnitUsage] = NO_USAGE
    ) -> Sequence[JobDirective | None]:
        """One answer a job, None for a lease that is lost. From any thread; blocks."""
        ...

    def on_directive(self, wake: Callable[[], None]) -> None:
        """`wake()` is called, on any thread, when some job may have got new orders."""
        ...

    async def close(self) -> None: ...
