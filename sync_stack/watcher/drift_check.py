"""One look at one unit: read the ledger, read the sink, compare, write down.

All of it blocks and runs on threads. Reading and writing down are two steps, so that a read that
takes too long leaves no trace.

(reference: sync-stack 6.1, 6.2, 6.3, 6.4)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from kernel import clock
from sync_stack.configuration.secrets import SecretError
from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.drift import (
    Comparison,
    Difference,
    Episode,
    HealState,
    TargetStatus,
    after_clean,
    after_drift,
    compare,
    drift_status,
    is_unhealed,
    may_heal,
)
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import Live, Owner, Sink, SinkError
from sync_stack.orchestrator.api import Drift, Snapshot, digest_key_of, drift, drift_records
from sync_stack.watcher.assignment import is_assigned, rule_named
from sync_stack.watcher.heal_state import HealStates
from sync_stack.watcher.metrics import Metrics, UnitFacts, env_label

log: Final = logging.getLogger("partita.sync.watcher")
MAX_LISTED: Final = 50
MAX_VALUE: Final = 256
_READS: Final = 3


class Outcome(StrEnum):
    READ = "read"
    NOTHING = "nothing"  # no baseline, or none that could be compared with
    BUSY = "busy"
    ORPHAN = "orphan"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftCheckResult:
    """What was found; `comparison` and `live` only with READ."""

    outcome: Outcome
    seen: Snapshot | None = None
    comparison: Comparison = field(default_factory=Comparison)
    live: Live = field(default_factory=Live)
    foreign_listed: bool = False

    @property
    def ledger(self) -> Ledger:
        assert self.seen is not None
        return self.seen.ledger

    @property
    def inconsistent(self) -> bool:
        """An intent is left though nobody is at work: its task has ended."""
        return self.ledger.intent is not None


@dataclass(kw_only=True)
class DriftChecker:
    """`bundle` is asked once a look; `now` is the wall clock, of pauses and records."""

    bundle: Callable[[], Bundle]
    open_sink: Callable[[Datasource], Sink]
    memories: HealStates
    metrics: Metrics
    now: Callable[[], datetime]
    poll_interval_s: float = 60.0
    log_values: bool = False
    facts: dict[str, UnitFacts] = field(default_factory=dict)

    def look(self, unit_id: str) -> DriftCheckResult:
        """Raises the primary store's errors; those of the sink are an outcome."""
        for tried in range(1, _READS + 1):
            seen = drift.snapshot(unit_id)
            if seen is None:
                return DriftCheckResult(outcome=Outcome.ORPHAN)
            found = self._found(seen)
            if found.outcome is not Outcome.READ or drift.is_unchanged(seen):
                return found
            log.debug("the unit changed during read %d", tried, extra={"unit_id": unit_id})
        return DriftCheckResult(outcome=Outcome.BUSY)

    def _found(self, seen: Snapshot) -> DriftCheckResult:
        ledger = seen.ledger
        digest_key = digest_key_of(ledger.digest_key_id)
        if ledger.applied is None or digest_key is None:
            return DriftCheckResult(outcome=Outcome.NOTHING, seen=seen)
        if seen.busy:
            return DriftCheckResult(outcome=Outcome.BUSY, seen=seen)
        try:
            return self._read(seen, digest_key)
        except (SinkError, SecretError) as error:
            self._failed(ledger, error)
            return DriftCheckResult(outcome=Outcome.FAILED, seen=seen)

    def _read(self, seen: Snapshot, digest_key: bytes) -> DriftCheckResult:
        ledger, bundle = seen.ledger, self.bundle()
        rule = rule_named(bundle, ledger.rule_id)
        if rule is None or rule.datasource != ledger.datasource:
            return DriftCheckResult(outcome=Outcome.ORPHAN, seen=seen)
        sink = self.open_sink(bundle.datasource(rule.datasource))
        if not is_assigned(bundle, rule, ledger, sink):
            return DriftCheckResult(outcome=Outcome.ORPHAN, seen=seen)
        owner = Owner(
            rule=ledger.rule_id, repo=ledger.repo, env=ledger.env, former_rules=ledger.former_rules
        )
        live = sink.read(seen.destination, owner, sorted(ledger.records()))
        return DriftCheckResult(
            outcome=Outcome.READ,
            seen=seen,
            comparison=compare(ledger, live, sink.capabilities, owner, digest_key),
            live=live,
            foreign_listed=sink.capabilities.foreign_listing,
        )

    def _failed(self, ledger: Ledger, error: SinkError | SecretError) -> None:
        code = error.code if isinstance(error, SinkError) else "secret_unavailable"
        log.warning(
            "%s cannot be read: %s",
            ledger.datasource,
            error,
            extra={"event": "poll_failed", "code": code, **_about(ledger)},
        )

    def record(self, look: DriftCheckResult, *, hinted: bool = False) -> str:
        """Write down what a poll found; the episode that a heal is due or under way for, if any."""
        match look.outcome:
            case Outcome.ORPHAN:
                if look.seen is not None:
                    self.facts.pop(look.ledger.unit_id, None)
            case Outcome.NOTHING if look.ledger.applied is None:
                self._show(look, TargetStatus.UNKNOWN)
            case Outcome.BUSY if look.seen is not None:
                row = drift.open_episode(look.ledger.unit_id)
                ours = row is not None and row.heal.get("last_task_id") == look.seen.busy_task
                self._show(look, TargetStatus.HEALING if ours else TargetStatus.SYNCING)
            case Outcome.READ:
                return self._compared(look, hinted=hinted)
            case _:
                """The last status stays."""
        return ""

    def _compared(self, look: DriftCheckResult, *, hinted: bool) -> str:
        row = drift.open_episode(look.ledger.unit_id)
        if look.comparison:
            return self._drifted(look, row)
        if not hinted:  # a writer must not shorten pauses by being seen often
            memory = self.memories.of(look.ledger.unit_id)
            self.memories.put(look.ledger.unit_id, after_clean(memory, self.now()))
        return self._clean(look, row)

    def _clean(self, look: DriftCheckResult, row: Drift | None) -> str:
        """An attempt under way ends its episode itself."""
        ledger = look.ledger
        healing = row is not None and row.state == Episode.HEALING
        if row is not None and not healing:
            by = "sync" if _has_moved(row, ledger) else "external"
            drift_records.close(row, Episode.RESOLVED, by=by)
            log.info("drift is gone", extra={"event": "drift_resolved", **_of(row), "by": by})
        status = TargetStatus.HEALING if healing else TargetStatus.IN_SYNC
        self._show(look, TargetStatus.INCONSISTENT if look.inconsistent else status)
        return row.id if row is not None and healing else ""

    def _drifted(self, look: DriftCheckResult, row: Drift | None) -> str:
        ledger, now = look.ledger, self.now()
        before = self.memories.of(ledger.unit_id)
        memory = after_drift(before, now, self.poll_interval_s, opened=row is None)
        flapping = memory.flapping
        if row is None:
            drift_records.begin_episode(ledger, look.comparison, now, flapping=flapping)
        else:
            drift_records.go_on(row, ledger, look.comparison, now, flapping=flapping)
        row = drift.open_episode(ledger.unit_id)
        if row is None:
            return ""  # another watcher has closed it meanwhile
        self.memories.put(ledger.unit_id, memory)
        self.metrics.drift.labels(ledger.datasource).inc()
        self._tell(look, row, flapping=flapping)
        if flapping and not before.flapping:
            log.error("drift comes again and again", extra={"event": "flapping", **_of(row)})
        self._show_drift(look, row, memory)
        return row.id if self._is_due(row, memory, now) else ""

    def _is_due(self, row: Drift, memory: HealState, now: datetime) -> bool:
        rule = rule_named(self.bundle(), row.rule_id)
        wanted = rule is not None and rule.self_heal
        return row.state == Episode.HEALING or (wanted and may_heal(memory, now))

    def _show_drift(self, look: DriftCheckResult, row: Drift, memory: HealState) -> None:
        healing = row.state == Episode.HEALING
        self._show(look, drift_status(memory, healing=healing, inconsistent=look.inconsistent))

    def _show(self, look: DriftCheckResult, status: TargetStatus) -> None:
        assert look.seen is not None
        ledger, bundle = look.ledger, self.bundle()
        memory = self.memories.of(ledger.unit_id)
        self.facts[ledger.unit_id] = UnitFacts(
            datasource=ledger.datasource,
            rule=ledger.rule_id,
            env=env_label(bundle, ledger.env),
            status=status,
            drift_keys=len(look.comparison.changes),
            foreign_keys=look.comparison.foreign_count,
            flapping=memory.flapping,
            unhealed=is_unhealed(memory),
        )
        drift_records.write_status(ledger.unit_id, look.seen.status, status)

    def shift(self, unit_id: str, status: TargetStatus) -> None:
        """What a heal makes of the unit, until the next poll says more."""
        fact = self.facts.get(unit_id)
        if fact is None or (
            status is TargetStatus.HEALING and fact.status is not TargetStatus.DRIFTED
        ):
            return
        left = 0 if status is TargetStatus.IN_SYNC else fact.drift_keys
        self.facts[unit_id] = replace(fact, status=status, drift_keys=left)
        drift_records.write_status(unit_id, fact.status, status)

    def _tell(self, look: DriftCheckResult, row: Drift, *, flapping: bool) -> None:
        """One line for each poll that finds drift; names of keys, no values."""
        comparison, rule = look.comparison, rule_named(self.bundle(), row.rule_id)
        named = {kind.value: comparison.keys(kind) for kind in Difference}
        fields: dict[str, Any] = {name: list(keys[:MAX_LISTED]) for name, keys in named.items()}
        if rule is not None and rule.sync_mode == "LIVE_STATE" and look.foreign_listed:
            named["foreign"] = comparison.foreign
            fields["foreign"] = list(comparison.foreign[:MAX_LISTED])
        if any(len(keys) > MAX_LISTED for keys in named.values()):
            fields["truncated"] = True
        if self.log_values:
            fields["values"] = _values(look)
        log.warning(
            "the live state of %s differs from Git",
            row.destination,
            extra={
                "event": "drift_detected",
                **_of(row),
                "polls": row.polls,
                "counts": comparison.counts,
                **fields,
                "self_heal": rule is not None and rule.self_heal,
                "flapping": flapping,
                "detected_at": clock.rfc3339(self.now()),
            },
        )


def _values(look: DriftCheckResult) -> dict[str, str]:
    """Live values of changed keys; what was added may be a secret, nobody has declared it."""
    live = look.live.values
    changed = [
        change.key
        for change in look.comparison.changes
        if change.kind is Difference.CHANGED and not change.secret
    ]
    return {key: live[key][:MAX_VALUE] for key in changed[:MAX_LISTED] if key in live}


def _has_moved(row: Drift, ledger: Ledger) -> bool:
    return ledger.applied is not None and ledger.applied.generation != row.generation


def _about(ledger: Ledger) -> dict[str, Any]:
    return {
        "rule_id": ledger.rule_id,
        "datasource": ledger.datasource,
        "env": ledger.env,
        "repo": ledger.repo,
        "destination": ledger.destination,
    }


def _of(row: Drift) -> dict[str, Any]:
    names = ("rule_id", "platform", "datasource", "env", "tenant", "repo", "ref", "destination")
    named = {name: getattr(row, name) for name in names}
    return {"drift_id": row.id, **named, "commit": row.commit, "generation": row.generation}
