"""Tasks: states, errors, when one is tried again, and when the ref has left its commit.

(reference: sync-stack 4.4, 4.10)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

MAX_DELAY_S: Final = 60.0
MAX_RETRY_AFTER_S: Final = 600.0
BUSY_DELAY_S: Final = 5.0
LAG_DELAY_S: Final = 5.0
MAX_LAGS: Final = 3


class State(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    DEAD = "DEAD"


class TaskKind(StrEnum):
    WEBHOOK = "webhook"
    HEAL = "heal"
    RECONCILE = "reconcile"
    SCHEMA_REFRESH = "schema_refresh"
    MANUAL = "manual"


class Change(StrEnum):
    """What happens to a task."""

    CLAIMED = "claimed"
    DONE = "done"
    FAILED_FOR_GOOD = "failed_for_good"
    FAILED_FOR_NOW = "failed_for_now"
    EXHAUSTED = "exhausted"
    WAITS = "waits"
    SUPERSEDED = "coalesced"


TERMINAL: Final = frozenset({State.SUCCEEDED, State.FAILED, State.DEAD})

TRANSITIONS: Final[dict[tuple[State, Change], State]] = {
    (State.PENDING, Change.CLAIMED): State.RUNNING,
    (State.RETRYING, Change.CLAIMED): State.RUNNING,
    (State.RUNNING, Change.DONE): State.SUCCEEDED,
    (State.RUNNING, Change.FAILED_FOR_GOOD): State.FAILED,
    (State.RUNNING, Change.FAILED_FOR_NOW): State.RETRYING,
    (State.RUNNING, Change.EXHAUSTED): State.DEAD,
    (State.RUNNING, Change.WAITS): State.RETRYING,
    (State.PENDING, Change.SUPERSEDED): State.SUCCEEDED,
    (State.RETRYING, Change.SUPERSEDED): State.SUCCEEDED,
}


class IllegalTaskTransition(Exception):
    """A task in this state cannot change so."""

    def __init__(self, state: State, change: Change) -> None:
        super().__init__(f"a task that is {state} cannot be {change}")


def advance(state: State, change: Change) -> State:
    """Return the state after the change; raise IllegalTaskTransition."""
    try:
        return TRANSITIONS[state, change]
    except KeyError:
        raise IllegalTaskTransition(state, change) from None


_RETRYABLE: Final = (
    "git_unavailable git_timeout git_auth ref_lagging destination_busy sink_unavailable "
    "sink_timeout sink_auth secret_unavailable schema_unavailable store_unavailable verify_failed "
    "stale_generation restore_failed worker_lost time_limit internal_error"
)
_PERMANENT: Final = (
    "bad_payload rule_removed repository_not_found commit_not_found path_is_symlink "
    "path_is_submodule lfs_pointer file_missing file_too_large unknown_format parse_error "
    "unsupported_expression root_key_missing env_collision key_conflict key_invalid too_many_keys "
    "too_many_files schema_invalid secret_invalid prune_guard ownership_conflict "
    "destination_invalid unowned_destination destination_too_large immutable_destination"
)
RETRYABLE: Final[Mapping[str, bool]] = {
    **dict.fromkeys(_RETRYABLE.split(), True),
    **dict.fromkeys(_PERMANENT.split(), False),
}
UNCOUNTED: Final = frozenset({"destination_busy", "ref_lagging"})

MESSAGES: Final = (  # of a task that succeeded, the most significant first
    "completed",
    "cleaned_up",
    "dry_run_complete",
    "no_changes",
    "superseded",
    "ref_deleted",
    "env_not_in_file",
    "no_files",
    "ref_not_mapped",
    "pull_request_ignored",
    "pull_request_action_ignored",
    "repository_not_matched",
    "schema_refreshed",
)


def most_significant(messages: Iterable[str]) -> str:
    """Return the message of a task with several targets, or `repository_not_matched`."""
    found = set(messages)
    return next((word for word in MESSAGES if word in found), "repository_not_matched")


class TaskError(Exception):
    """Why an attempt, or one rule of it, failed. `detail` holds no value and no secret.

    `uncounted`: it costs none of the attempts. `keys`: the candidates of a prune guard.
    `retryable`: where this error differs from others of its code.
    """

    def __init__(  # noqa: PLR0913
        self,
        code: str,
        detail: str,
        *,
        file: str = "",
        line: int = 0,
        column: int = 0,
        retry_after_s: float | None = None,
        keys: tuple[str, ...] = (),
        uncounted: bool | None = None,
        retryable: bool | None = None,
    ) -> None:
        if code not in RETRYABLE:
            raise ValueError(f"{code!r} is not a code of a task")
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.file = file
        self.line = line
        self.column = column
        self.retry_after_s = retry_after_s
        self.keys = keys
        self.uncounted = code in UNCOUNTED if uncounted is None else uncounted
        self.retryable = RETRYABLE[code] if retryable is None else retryable

    def as_dict(self) -> dict[str, object]:
        fields: dict[str, object] = {
            "code": self.code,
            "detail": self.detail,
            "retryable": self.retryable,
        }
        place = {"file": self.file, "line": self.line, "column": self.column}
        return fields | {name: value for name, value in place.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """How often a task was tried, and how often it may be."""

    attempt: int
    max_attempts: int
    base_s: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The change of a task after an error; `delay_s` and `max_attempts` count while it retries."""

    change: Change
    max_attempts: int
    delay_s: float = 0.0


def judge(error: TaskError, tries: Tries, *, jitter: float) -> Verdict:
    """Decide what an error does to a task; `jitter` is uniform in 0.5 to 1."""
    if error.uncounted:
        waits = {"destination_busy": BUSY_DELAY_S, "ref_lagging": LAG_DELAY_S}
        delay = max(waits.get(error.code, 0.0), error.retry_after_s or 0.0)
        return Verdict(change=Change.WAITS, max_attempts=tries.max_attempts + 1, delay_s=delay)
    if not error.retryable:
        return Verdict(change=Change.FAILED_FOR_GOOD, max_attempts=tries.max_attempts)
    if tries.attempt >= tries.max_attempts:
        return Verdict(change=Change.EXHAUSTED, max_attempts=tries.max_attempts)
    delay = backoff_s(tries, jitter=jitter, retry_after_s=error.retry_after_s)
    return Verdict(change=Change.FAILED_FOR_NOW, max_attempts=tries.max_attempts, delay_s=delay)


def backoff_s(tries: Tries, *, jitter: float, retry_after_s: float | None = None) -> float:
    """Return min(60 s, base × 2^(attempt - 1)) × jitter, or a longer wait that was asked for."""
    doubled = tries.base_s * 2.0 ** min(max(tries.attempt, 1) - 1, 30)
    asked = min(retry_after_s or 0.0, MAX_RETRY_AFTER_S)
    return max(min(MAX_DELAY_S, doubled) * jitter, asked)


class RefUpdate(NamedTuple):
    """A delivery: the ref went from `before` (empty: it is new) to `commit`. Later ids: later."""

    task_id: str
    before: str
    commit: str


def outdated_tasks(
    waiting: Iterable[RefUpdate], known: Iterable[RefUpdate], heads: Collection[str]
) -> frozenset[str]:
    """Return the waiting tasks whose commit the ref has left; `heads`: the refs at the host.

    Either a later delivery starts at the commit, or deliveries in any order lead from it to a head
    of the host. Deliveries that lead back, as after a rewind, prove nothing.
    """
    onward: dict[str, set[str]] = {}
    newest: dict[str, str] = {}
    for update in known:
        onward.setdefault(update.before, set()).add(update.commit)
        newest[update.before] = max(newest.get(update.before, ""), update.task_id)
    return frozenset(
        update.task_id
        for update in waiting
        if newest.get(update.commit, "") > update.task_id or _leads_to(heads, update, onward)
    )


def _leads_to(
    heads: Collection[str], update: RefUpdate, onward: Mapping[str, Collection[str]]
) -> bool:
    after: set[str] = set()
    pending = [update.commit]
    while pending:
        found = set(onward.get(pending.pop(), ())) - after
        after |= found
        pending += found
    returns = update.commit in after or update.before in after
    return not returns and not after.isdisjoint(heads)
