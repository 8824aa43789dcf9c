"""The port of the sinks: what the sync needs of a place that holds settings.

A destination holds records. A *record* is what the sink stores as one: a key, a document, an
object, a file. It carries one setting, or, where the layout says so, many (a *whole* record, which
is read and written as one). Everything crosses the port as flat key → string.

    SinkError            one fact; `retryable` follows from its code (reference: sync-stack 4.10)
    └── SinkConflict     somebody wrote between read and write: read and plan again

(reference: sync-stack 5)
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar, runtime_checkable

from sync_stack.core.bundle.datasources import KeyCase
from sync_stack.core.bundle.rules import KeyFormat

RETRYABLE: Final = frozenset(
    {"sink_unavailable", "sink_timeout", "sink_auth", "verify_failed", "stale_generation"}
)
PERMANENT: Final = frozenset(
    {
        "destination_invalid",
        "destination_too_large",
        "immutable_destination",
        "key_conflict",
        "key_invalid",
        "unowned_destination",
    }
)
MISTYPED: Final = "mistyped"  # the version of a record in whose place another type of thing stands
MAX_TIMEOUT_S: Final = 10.0  # of one operation with retries (reference: sync-stack 4.8)


class SinkError(Exception):
    """A sink refused or could not be reached; `detail` holds no value and no secret."""

    def __init__(self, code: str, detail: str, *, retry_after_s: float | None = None) -> None:
        if code not in RETRYABLE | PERMANENT:
            raise ValueError(f"{code!r} is not a code of a sink")
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.retryable = code in RETRYABLE
        self.retry_after_s = retry_after_s


class SinkConflict(SinkError):
    """The record is no longer the one that was read.

    `Capabilities.replans` says how often to read and plan again before this is `verify_failed`.
    """

    def __init__(self, detail: str) -> None:
        super().__init__("verify_failed", detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """One physical place. `name` is the place within the sink and is shown to users.

    `address` is the physical address (host, database, bucket, path …), equal for equal places
    whatever the datasource is called; it holds no secret. `separator` is set where records extend
    the name, so that one destination may lie inside another (STRING, s3, directories).
    """

    kind: str
    name: str
    address: str
    separator: str = ""

    @property
    def id(self) -> str:
        """Return the hex sha256 of kind and address."""
        return hashlib.sha256(f"{self.kind}\n{self.address}".encode()).hexdigest()

    def overlaps(self, other: Destination) -> bool:
        """Whether one lies inside the other; a place does not lie inside itself."""
        return self._holds(other) or other._holds(self)

    def _holds(self, other: Destination) -> bool:
        if self.kind != other.kind or not self.separator:
            return False
        return other.address.startswith(self.address.rstrip(self.separator) + self.separator) and (
            other.address != self.address
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPlace:
    """What a sink needs to name the destination and the records of a target.

    `rendered` is the rule's destination template with its braces filled; empty without template.
    `overrides` are the rule's own `env_as_…` fields, which win over the datasource's.
    """

    rule: str
    tenant: str
    datasource: str
    env: str
    repo: str
    rendered: str = ""
    overrides: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMarker:
    """Our metadata on what is written. Never compared as content; it tells whose a record is."""

    rule: str
    repo: str
    env: str
    generation: int
    tenant: str = ""
    datasource: str = ""
    ref: str = ""
    commit: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    updated_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The target as markers name it; `former_rules` are the rules that it was taken over from."""

    rule: str
    repo: str
    env: str
    former_rules: frozenset[str] = frozenset()

    def owns(self, mark: TargetMarker | None) -> bool:
        return (
            mark is not None
            and mark.repo == self.repo
            and mark.env == self.env
            and (mark.rule == self.rule or mark.rule in self.former_rules)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRecord:
    """A record as found. `version` is the sink's own token for conditional writes, if any.

    `mark` is None for a record without our marker, and for all where the sink keeps none.
    """

    values: Mapping[str, str]
    mark: TargetMarker | None = None
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What a destination holds of the records asked for and of those with the target's marker.

    Records that do not exist are absent from `records`. `foreign` names what else is there, where
    the sink can list it; `foreign_count` counts it where it is counted only. `unowned`: the
    destination as a whole is not ours and this sink takes none over without `adopt`.

    `mistyped`: records in whose place another type of thing stands (a list for a hash, a folder or
    a link for a file). They are absent from `records`; a Put with the version MISTYPED takes the
    place. `mistyped_whole`: the destination itself is such a thing, and with it all its records.
    """

    records: Mapping[str, LiveRecord] = field(default_factory=dict)
    foreign: frozenset[str] = frozenset()
    foreign_count: int = 0
    unowned: bool = False
    mistyped: frozenset[str] = frozenset()
    mistyped_whole: bool = False

    @property
    def values(self) -> dict[str, str]:
        """Every key of every record, in no particular order."""
        return {
            key: text for record in self.records.values() for key, text in record.values.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """One record to write. A whole record gets exactly `values`; any other holds one key.

    `version` is that of the record as read: "" when it was absent, MISTYPED when another type of
    thing stood there, which no other version replaces. `marked` is False only when
    a restore gives a record back to whom it belonged before.
    """

    record: str
    values: Mapping[str, str]
    file: str = ""
    version: str = ""
    marked: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    record: str
    key: str = ""  # of a record that holds one key
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What the planner must know about a sink.

    whole_records      a record holds many keys and is written as one
    marks_records      each record carries its marker, so that ownership can be read from it
    adopts_unmarked    a record of one key without marker may be taken over without `adopt`
    atomic             all records of one write appear at once
    fencing            the sink itself refuses an older generation
    foreign_listing    `Live.foreign` is complete
    implied_prune      prunes as if the rule said so (ConfigMap REPLACE)
    refuses_foreign    nothing is written beside foreign keys (ConfigMap FAIL)
    expires            records vanish by themselves, so that an absent one is no drift (Redis ttl)
    replans            how often a SinkConflict leads to a new plan
    key_formats        those it takes, the default first
    file_records       a record for each source file: two files never share one
    max_bytes          of the destination; 0: no limit of its own
    batch              records that one write or delete takes within the time of an operation;
                       the caller splits (`batches`) and checks its lease in between. 0: all
    key_case           the caller turns keys to upper or lower case before it plans
    """

    whole_records: bool = False
    marks_records: bool = False
    adopts_unmarked: bool = True
    atomic: bool = False
    fencing: bool = True
    foreign_listing: bool = False
    implied_prune: bool = False
    refuses_foreign: bool = False
    expires: bool = False
    replans: int = 0
    batch: int = 0
    file_records: bool = False
    key_formats: tuple[KeyFormat, ...] = (KeyFormat.DOT,)
    key_case: KeyCase = KeyCase.KEEP
    max_bytes: int = 0


Operation = TypeVar("Operation", Put, Delete)


def batches(operations: Sequence[Operation], sink: Capabilities) -> Iterator[Sequence[Operation]]:
    """Yield as many operations at a time as the sink takes at once."""
    size = sink.batch or max(1, len(operations))
    for start in range(0, len(operations), size):
        yield operations[start : start + size]


class Sink(Protocol):
    """One datasource. Each operation ends within MAX_TIMEOUT_S, client retries included.

    All of them raise SinkError. Instances may be used by several threads.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    def destination(self, place: TargetPlace) -> Destination:
        """Return the target's destination without a request; raise `destination_invalid`."""
        ...

    def record(self, place: TargetPlace, destination: Destination, key: str, file: str) -> str:
        """Return the record of a key of a source file without a request; raise `key_invalid`."""
        ...

    def read(self, destination: Destination, owner: Owner, records: Collection[str]) -> Live:
        """The live state of these records and of all with the owner's marker; all or an error."""
        ...

    def write(self, destination: Destination, puts: Sequence[Put], mark: TargetMarker) -> None:
        """Write; raise `stale_generation` when the sink has seen a higher generation."""
        ...

    def delete(
        self, destination: Destination, deletes: Sequence[Delete], owner: Owner, generation: int
    ) -> None:
        """Remove these records, but none with another owner's marker; absent ones are no error.

        Raise `stale_generation` as `write` does.
        """
        ...

    def fence(self, destination: Destination, owner: Owner, generation: int) -> None:
        """Refuse writers older than `generation` from now on; never lower it."""
        ...

    def close(self) -> None: ...


class Changes(Protocol):
    """A sink's change notifications: hints, which may be lost and may come without cause."""

    def next(self, destinations: Collection[Destination], timeout_s: float) -> frozenset[str]:
        """Wait for changes; return the ids of the changed destinations. Raise SinkError."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Notifying(Protocol):
    """A sink that may send change notifications."""

    def changes(self) -> Changes | None:
        """Return the notifications, or None. Raise SinkError and the errors of secrets."""
        ...
