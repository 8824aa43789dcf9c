"""What supervisors and the control plane exchange about jobs (reference: control-plane 15).

A worker sends these values as JSON over HTTP; a runner passes them on in its own process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, NotRequired, TypedDict

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The identity of one attempt of a step."""

    job_id: str
    attempt: int


def job_of(spec: Mapping[str, Any]) -> Job:
    """Return the job of a step spec. Raises KeyError."""
    return Job(job_id=spec["jobId"], attempt=spec["attempt"])


def mock_variable(key: str) -> str:
    """Return the variable of a key of `mockUrls`, without prefix: MOCK_PAY_PSP_URL."""
    return f"MOCK_{re.sub(r'[^A-Z0-9]', '_', key.upper())}_URL"


class RunBody(TypedDict):
    """The run of a step, as the step's spec has it."""

    executionId: str
    suiteId: str
    suiteTitle: str
    suiteRepository: str
    workspaceId: str
    owner: str
    installationId: str
    profile: str
    trigger: str
    backendId: str
    backendKind: str
    backendLabel: str
    requestId: NotRequired[str]


class ImportBody(TypedDict, total=False):
    """Where a step comes from whose suite is imported."""

    sourceSuiteId: str
    sourceSuiteTitle: str
    sourceRepository: str
    sourceVersion: str
    dependencyAlias: str
    resolvedRef: str
    digest: str


class EvaluationBody(TypedDict):
    expectExit: int
    expectLogs: list[str]
    failOnLogs: list[str]


class StepSpecBody(RunBody, ImportBody):
    """The answer to a claim: what a supervisor needs to run a step.

    `env` has the values of the secrets, `secretKeys` their names; `node` is the step's node of the
    topology. `keepUnits`: the ended unit stays until the run is released. `ahead`: steps that may
    come next for the same supervisor, whose units it may start ahead. None of them may run before
    it is claimed.

    (reference: control-plane 13.1)
    """

    jobId: str
    attempt: int
    runtimeProfile: str
    stepIndex: int
    totalSteps: int
    leaseMs: int
    timeoutMs: int
    env: dict[str, str]
    headers: Mapping[str, str]
    mockUrls: Mapping[str, str]
    secretKeys: list[str]
    evaluation: EvaluationBody
    onFailure: list[Any]
    artifactExports: list[Mapping[str, Any]]
    observability: Mapping[str, bool]
    node: Mapping[str, Any]
    traceparent: NotRequired[str]
    content: NotRequired[Mapping[str, Any]]
    keepUnits: NotRequired[bool]
    ahead: NotRequired[list[StepSpecBody]]
    traffic: NotRequired[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepUsage:
    """The usage of a unit; `cpu_percent`: 100 is one core. None: the runtime cannot tell."""

    cpu_percent: float | None = None
    memory_bytes: int | None = None
    memory_peak_bytes: int | None = None


NO_USAGE: Final[Mapping[Job, StepUsage]] = MappingProxyType({})
PROBE_ANSWER_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeProgress:
    """What the probe of a service that is not ready answered last; `tries`: so far.

    `time_left_ms`: until the service fails. It travels instead of a time, because clocks differ.
    """

    answer: str
    tries: int
    time_left_ms: int


NO_PROBES: Final[Mapping[Job, ProbeProgress]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class StateReport:
    """What happened to the unit of a job.

    `state`: `waiting` (the message says what for; an empty one: for nothing any more),
    `image-pull`, `running` (container started), `healthy` (services), `adopted`.
    """

    job: Job
    state: str
    message: str = ""
    detail: str = ""


class LogLine(NamedTuple):
    """`time` is aware; `level`: info, warn, error, debug; `kind`: output, system, metric, user."""

    time: datetime
    level: str
    kind: str
    text: str
    continued: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Lines in order; `seq` numbers the first of them, from 0 in each attempt.

    `position`: how many records of the runtime's log the lines complete.
    """

    job: Job
    seq: int
    position: int
    lines: Sequence[LogLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingArtifact:
    """A declared artifact that the step did not leave; `hint` says where a file of its name is."""

    path: str
    hint: str = ""


MISSING_ARTIFACTS: Final = 50  # of one attempt that are reported
HINT_CHARACTERS: Final = 500
ARTIFACT_PATH_CHARACTERS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """`status`: succeeded, failed, canceled, or empty: failed when `error` is non-empty.

    `final_seq`: the number of lines that must be stored before.
    """

    job: Job
    status: str = ""
    error: str = ""
    reason: str = ""
    exit_code: int | None = None
    final_seq: int | None = None
    usage: StepUsage | None = None
    missing_artifacts: tuple[MissingArtifact, ...] = ()

    @property
    def outcome(self) -> str:
        return self.status or ("failed" if self.error else "succeeded")


Report = StateReport | LogChunk | Completion


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactUpload:
    path: str
    name: str
    format: str
    on: str
    media_type: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedJob:
    """A job that continues at line `next_seq`, after `position` records of the runtime's log."""

    job: Job
    next_seq: int
    position: int
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDirective:
    """Continue if the reason is empty; else stop: canceled, teardown, detach or timeout.

    `lease_grace_s`: in answer to a renewal, how long an expired lease can still be renewed.
    """

    cancel_reason: str = ""
    lease_grace_s: float | None = None


class DirectiveAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What a worker reads of the answer to a report or a renewal."""

    cancel_reason: str | None = ""
    lease_grace_ms: float | None = None


class KeptJobAnswer(msgspec.Struct, frozen=True, rename="camel"):
    job_id: str
    attempt: int
    next_seq: int
    position: int


class RegistrationAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What a worker reads of the answer to its registration."""

    agent_token: str
    heartbeat_interval_ms: float
    keep_jobs: tuple[KeptJobAnswer, ...]
    drop_jobs: tuple[str, ...]
    installation_id: str = ""
    lease_grace_ms: float | None = None


class HeartbeatAnswer(msgspec.Struct, frozen=True, rename="camel"):
    release_runs: tuple[str, ...] | None = ()


ResourceKind = Literal["container", "network", "volume"]


UNKNOWN_TIME: Final = datetime.min.replace(tzinfo=UTC)  # before every other


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeResource:
    """A container, network or volume on a runtime, as its list has it.

    `id` names it for its runtime; of a volume it is the name. `created_at` is in whole seconds,
    and UNKNOWN_TIME where the runtime's own cannot be read.
    `state` is the runtime's word (`running`, `exited`), `status` its sentence. `ports` are written
    `8080 -> 80/tcp`, or `80/tcp` where none is published. The last three are of networks and
    volumes. An attribute that does not apply, or that the list does not have, is empty.
    """

    kind: ResourceKind
    id: str
    name: str
    created_at: datetime
    labels: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    state: str = ""
    status: str = ""
    ports: tuple[str, ...] = ()
    started_at: datetime | None = None
    exit_code: int | None = None
    memory_limit_bytes: int | None = None
    driver: str = ""
    scope: str = ""
    mountpoint: str = ""

    def is_same(self, other: RuntimeResource) -> bool:
        """Return whether the other is this resource, with the same labels, and no successor."""
        return (
            (self.kind, self.id, self.name) == (other.kind, other.id, other.name)
            and self.created_at == other.created_at
            and dict(self.labels) == dict(other.labels)
        )
