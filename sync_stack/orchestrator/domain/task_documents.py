"""The JSON of a task row: its request, its memory between attempts, and its result.

Each type decodes a column with `of` and encodes it with `as_json`. The members and their order are
those of the releases before, whose rows this one reads, and whose workers may read its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

import msgspec
from msgspec import UNSET, Struct, UnsetType

from sync_stack.core.events import Event
from sync_stack.core.tasks import TaskError

TOTALS: Final = ("written", "pruned", "unchanged", "restored", "adopted")
_UNPLACED: Final = (
    *("unit_id", "destination_id", "committed", "generation", "rule_id", "repo", "ref"),
    *("datasource", "sync_mode", "outcome", "error"),
)


class HealBaseline(Struct, frozen=True, kw_only=True):
    """The target of a heal, and the baseline that the watcher compared with.

    `generation` 0 and an empty `ref` or `commit` stand for any.
    """

    env: str
    destination_id: str
    generation: int = 0
    ref: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequest:
    """What a task is asked to do. No `rules`: all of the segment.

    `purge`: the id of the target to purge. `approved`: `<destination id>:<environment>` → the keys
    whose deletion an operator has approved.
    """

    events: tuple[Event, ...] = ()
    rules: tuple[str, ...] = ()
    heal: HealBaseline | None = None
    dry_run: bool = False
    purge: str = ""
    approved: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        heal = stored.get("heal")
        return cls(
            events=tuple(map(Event.from_dict, stored.get("events", ()))),
            rules=tuple(stored.get("rules", ())),
            heal=msgspec.convert(heal, HealBaseline) if heal else None,
            dry_run=bool(stored.get("dry_run")),
            purge=stored.get("purge", ""),
            approved=stored.get("approved", {}),
        )

    def as_json(self) -> dict[str, object]:
        special = {
            "heal": self.heal and msgspec.to_builtins(self.heal),
            "dry_run": self.dry_run,
            "purge": self.purge,
            "approved": self.approved,
        }
        return {
            "events": [event.as_dict() for event in self.events],
            "rules": list(self.rules),
            **{name: value for name, value in special.items() if value},
        }

    @property
    def is_plain(self) -> bool:
        """Return whether the task syncs the heads of its refs and nothing else."""
        return not (self.heal or self.dry_run or self.purge or self.approved)


class StoredError(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error as tasks, rule syncs and targets store it."""

    code: str
    detail: str
    retryable: bool
    file: str = ""
    line: int = 0
    column: int = 0

    @classmethod
    def of(cls, error: TaskError | Mapping[str, Any]) -> Self:
        return msgspec.convert(error.as_dict() if isinstance(error, TaskError) else error, cls)

    def as_error(self) -> TaskError:
        place = {"file": self.file, "line": self.line, "column": self.column}
        return TaskError(self.code, self.detail, **place)  # type: ignore[arg-type]


class FileOutcome(Struct, frozen=True, kw_only=True):
    """One file. `validation`: ok, failed or none; `status`: ok, empty, missing or error.

    A file that failed before its environment was known has neither `env` nor `format`.
    """

    file: str = ""
    env: str | UnsetType = UNSET
    format: str | UnsetType = UNSET
    keys: int = 0
    validation: str = "none"
    status: str = ""


class TargetOutcome(Struct, frozen=True, kw_only=True):
    """What a rule sync did at one target; an entry without `destination_id` has no target.

    `would_prune`: keys that a guard or a dry run kept. `committed`: the intent may be applied.
    """

    unit_id: str = ""
    destination_id: str = ""
    committed: bool = False
    rule_id: str = ""
    repo: str = ""
    ref: str = ""
    env: str = ""
    datasource: str = ""
    destination: str = ""
    commit: str = ""
    generation: int = 0
    sync_mode: str = ""
    outcome: str = "failed"
    written: int = 0
    pruned: int = 0
    unchanged: int = 0
    restored: int = 0
    adopted: int = 0
    would_prune: tuple[str, ...] = ()
    stale: bool = False
    warnings: tuple[str, ...] = ()
    released: tuple[str, ...] | None = None
    error: StoredError | None = None

    def as_json(self) -> dict[str, object]:
        fields: dict[str, object] = msgspec.to_builtins(self)
        if not self.destination_id:
            return {name: fields[name] for name in _UNPLACED}
        return {name: value for name, value in fields.items() if value is not None}


class RuleSyncOutcome(Struct, frozen=True, kw_only=True):
    """What one rule sync did; `error` if it failed. Failed or unread: no `rule_digest`."""

    message: str
    targets: tuple[TargetOutcome, ...] = ()
    files: tuple[FileOutcome, ...] = ()
    error: StoredError | None = None
    commit: str = ""
    rule_digest: str = ""

    def as_json(self) -> dict[str, object]:
        made = {
            "message": self.message,
            "targets": [target.as_json() for target in self.targets],
            "files": msgspec.to_builtins(self.files),
            "error": msgspec.to_builtins(self.error),
            "commit": self.commit,
        }
        return made | ({"rule_digest": self.rule_digest} if self.rule_digest else {})


class TaskMemory(Struct, frozen=True, kw_only=True):
    """What an attempt leaves to the next one.

    `done`: outcomes of rule syncs that have ended, by key. `lags`: how often a host lagged.
    """

    done: dict[str, RuleSyncOutcome] = {}
    lags: int = 0

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        return msgspec.convert(stored, cls)

    def as_json(self) -> dict[str, object]:
        done = {key: outcome.as_json() for key, outcome in self.done.items()}
        return {"done": done, "lags": self.lags}


class TaskResult(Struct, frozen=True, kw_only=True):
    """The result of a task that has ended; the numbers are sums over its targets."""

    written: int = 0
    pruned: int = 0
    unchanged: int = 0
    restored: int = 0
    adopted: int = 0
    files: tuple[FileOutcome, ...] = ()
    targets: tuple[TargetOutcome, ...] = ()

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        return msgspec.convert(stored, cls)

    @classmethod
    def of_outcomes(cls, outcomes: Iterable[RuleSyncOutcome]) -> Self:
        found = tuple(outcomes)
        targets = tuple(target for outcome in found for target in outcome.targets)
        return cls(
            files=tuple(file for outcome in found for file in outcome.files),
            targets=targets,
            **{name: sum(getattr(target, name) for target in targets) for name in TOTALS},
        )

    def as_json(self) -> dict[str, object]:
        fields: dict[str, object] = msgspec.to_builtins(self)
        return fields | {"targets": [target.as_json() for target in self.targets]}
