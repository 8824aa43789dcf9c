"""What identifies a claim, a target and a ref, and what is recorded of a ref."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from sync_stack.core.ledger import Ledger
from sync_stack.core.tasks import State

MAX_RECENT: Final = 20
GONE: Final = "0" * 40


@dataclass(frozen=True, slots=True)
class Claim:
    """The right of a worker to a task: it holds while the task is RUNNING at this attempt."""

    task_id: str
    attempt: int

    @property
    def where(self) -> dict[str, object]:
        return {"id": self.task_id, "attempt": self.attempt, "state": State.RUNNING}


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetKey:
    """What identifies a target: rule, repository, environment and destination."""

    rule: str
    repo: str
    env: str
    destination_id: str

    @property
    def hash(self) -> str:
        text = "\n".join((self.rule, self.repo, self.env, self.destination_id))
        return hashlib.sha256(text.encode()).hexdigest()


def key_of(ledger: Ledger) -> TargetKey:
    return TargetKey(
        rule=ledger.rule_id,
        repo=ledger.repo,
        env=ledger.env,
        destination_id=ledger.destination_id,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RefName:
    rule: str
    repo: str
    ref: str

    @property
    def hash(self) -> str:
        return hashlib.sha256("\n".join((self.rule, self.repo, self.ref)).encode()).hexdigest()


def branch_key(platform: str, segment: str, repo: str, ref: str, rules: Collection[str]) -> str:
    """Return the key that tasks of one branch or tag and the same rules share."""
    text = "\n".join((platform, segment, repo, ref, ",".join(sorted(rules))))
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRef:
    """The state of a ref that a task handled. `dead`: how many tasks in a row ended DEAD.

    `action` and `fork` come from the latest event of a pull request.
    """

    commit: str
    rule_digest: str
    outcome: str
    task_id: str
    dead: int = 0
    action: str = ""
    fork: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRef:
    """What is stored of a ref. `recent`: commits that were applied, the newest last.

    `version` is 0 until it is stored, and rises with every observation.
    """

    name: RefName
    platform: str
    datasource: str
    observed: ObservedRef | None = None
    recent: tuple[str, ...] = ()
    pr_time: str = ""
    version: int = 0

    def with_applied_commit(self, commit: str) -> RecordedRef:
        kept = [entry for entry in self.recent if entry != commit]
        return replace(self, recent=tuple([*kept, commit][-MAX_RECENT:]))
