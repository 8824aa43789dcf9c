"""Runs: what callers ask for, and why they are refused.

(reference: control-plane 11.1, 15.2)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, NotRequired, TypedDict

from apps.executions.domain.states import ExecutionStatus
from kernel.errors import NotFound, PlatformError
from kernel.wire_types import Count, Instant, Ordinal, Uuid, keywords, one_of

BACKEND_KINDS: Final = ("local", "kubernetes", "remote-agent")
TRIGGERS: Final = ("Manual", "CI", "API", "Rerun")

MAX_GROUP_LENGTH: Final = 128


class ExecutionNotFound(NotFound):
    """The run is unknown, deleted or of another workspace; the response does not tell which."""

    code = "execution_not_found"

    def __init__(self) -> None:
        super().__init__("execution not found")


class ArtifactNotFound(NotFound):
    code = "artifact_not_found"

    def __init__(self, detail: str = "artifact not found in this execution") -> None:
        super().__init__(detail)


class ArtifactExpired(PlatformError):
    code = "artifact_expired"

    def __init__(self) -> None:
        super().__init__("the file was removed after the retention time of artifacts")


class ExecutionActive(PlatformError):
    """The run is not over, or it is kept alive."""

    code = "execution_active"


class ExecutionFinished(PlatformError):
    code = "execution_finished"


class QueueFull(PlatformError):
    code = "queue_full"


class IdempotencyKeyReused(PlatformError):
    """The key was used before with another body."""

    code = "idempotency_key_reused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """Of a workspace's runs in one `group`, one is active and the newest of the others waits.

    With `cancel_in_progress` a launch cancels the active one, too.
    """

    group: str
    cancel_in_progress: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """`backend` is an id, empty or `auto`; `trigger` is Manual, CI or API."""

    suite_id: str
    profile: str = ""
    backend: str = ""
    keep_alive_ms: int | None = None  # None: as the profile says
    trigger: str = "Manual"
    author: str = ""
    commit: str = ""
    branch: str = ""
    message: str = ""
    concurrency: Concurrency | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Idempotency:
    """An idempotency key and what it is valid for; `body` is the request body as sent."""

    principal: str
    method: str
    path: str
    key: str
    body: bytes


class ConcurrencyBody(TypedDict):
    group: str
    cancelInProgress: bool


class RunSummary(TypedDict):
    """The Summary of a run, as on the wire; an optional key is absent, never null."""

    id: str
    suiteId: str
    suiteTitle: str
    profile: Annotated[str, "file name, empty when the suite has none"]
    backendId: str
    backend: Annotated[str, "label"]
    backendKind: Annotated[str, one_of(BACKEND_KINDS)]
    trigger: Annotated[str, one_of(TRIGGERS)]
    author: Annotated[str, "as given, otherwise the full name of who launched it"]
    launchedBy: NotRequired[Annotated[str, "the CI job that launched it by its own token"]]
    workspaceId: Uuid
    rerunOf: NotRequired[str]
    attempt: NotRequired[Annotated[int, keywords(minimum=2), "of a rerun, among all of its run"]]
    status: Annotated[str, one_of(ExecutionStatus)]
    failing: bool
    sentence: Annotated[str, "why the run has its status, in words"]
    reason: NotRequired[str]
    reasonDetail: NotRequired[str]
    queuePosition: NotRequired[Ordinal]
    concurrency: NotRequired[ConcurrencyBody]
    duration: Annotated[str, "MM:SS"]
    durationMs: Count
    startedAt: Annotated[Instant, "when it was accepted"]
    bootedAt: NotRequired[Instant]
    finishedAt: NotRequired[Instant]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """`replayed`: the summary answers an earlier request with the same Idempotency-Key."""

    summary: RunSummary
    replayed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs a list holds; empty and None mean any.

    `since` (inclusive) and `until` (exclusive) apply to the time of acceptance. `live_since` takes
    the active runs and those that ended since. `words` is searched in ids, titles, profile, author,
    CI job, branch, commit and message, `author` in the author.
    """

    statuses: frozenset[str] = frozenset()
    suite_id: str = ""
    profile: str = ""
    backend_id: str = ""
    trigger: str = ""
    words: str = ""
    author: str = ""
    live_since: datetime | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What the inventory of environments needs of a run; `agent_id`: what it is bound to now."""

    run_id: str
    workspace_id: str
    suite_title: str
    profile: str
    backend_id: str
    agent_id: str
    status: str
    is_over: bool
    started_at: datetime
    is_canceling: bool = False
    finished_at: datetime | None = None
    keep_alive_until: datetime | None = None
