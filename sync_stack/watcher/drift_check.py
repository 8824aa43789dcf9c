"""Drift check of one target: read the ledger and the sink, compare, record.

All of it blocks and runs on threads. Check and record are two steps, so that a read that takes too
long is not recorded.

(reference: sync-stack 6.1, 6.2, 6.3, 6.4)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from kernel import clock
from sync_stack.configuration.secrets import SecretError
from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.drift import (
    Comparison,
    Difference,
    Episode,
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
from sync_stack.orchestrator.api import (
    Drift,
    DriftSnapshot,
    TargetLocation,
    digest_key_of,
    drift,
    drift_records,
    is_for,
    is_produced,
)
from sync_stack.watcher.heal_state import HealStates
from sync_stack.watcher.metrics import TargetFacts, WatcherMetrics, env_label

log: Final = logging.getLogger("partita.sync.watcher")
MAX_LISTED: Final = 50
MAX_VALUE: Final = 256
_READS: Final = 3


class CheckOutcome(StrEnum):
    READ = "read"
    NOTHING = "nothing"  # no baseline, or none that could be compared with
    BUSY = "busy"
    ORPHAN = "orphan"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftCheckResult:
    """The result of a check; `comparison` and `live` are set only with READ."""

    outcome: CheckOutcome
    snapshot: DriftSnapshot | None = None
    comparison: Comparison = field(default_factory=Comparison)
    live: Live = field(default_factory=Live)
    foreign_listed: bool = False

    @property
    def ledger(self) -> Ledger:
        assert self.snapshot is not None
        return self.snapshot.ledger

    @property
    def is_inconsistent(self) -> bool:
        """Return whether an intent is left whose task has ended."""
        return self.ledger.intent is not None


@dataclass(kw_only=True)
class DriftChecker:
    """Check targets and record the results; `now` is the wall clock."""

    bundle: Callable[[], Bundle]
    open_sink: Callable[[Datasource], Sink]
    heal_states: HealStates
    metrics: WatcherMetrics
    now: Callable[[], datetime]
    poll_interval_s: float = 60.0
    log_values: bool = False
    facts: dict[str, TargetFacts] = field(default_factory=dict)

    def check(self, unit_id: str) -> DriftCheckResult:
        """Compare a target with its ledger. Raises errors of the store, not of the sink."""
        for attempt_number in range(1, _READS + 1):
            snapshot = drift.snapshot(unit_id)
            if snapshot is None:
                return DriftCheckResult(outcome=CheckOutcome.ORPHAN)
            result = self._compare_snapshot(snapshot)
            if result.outcome is not CheckOutcome.READ or drift.is_unchanged(snapshot):
                return result
            log.debug(
                "the target changed during read %d", attempt_number, extra={"unit_id": unit_id}
            )
        return DriftCheckResult(outcome=CheckOutcome.BUSY)

    def _compare_snapshot(self, snapshot: DriftSnapshot) -> DriftCheckResult:
        ledger = snapshot.ledger
        digest_key = digest_key_of(ledger.digest_key_id)
        if ledger.applied is None or digest_key is None:
            return DriftCheckResult(outcome=CheckOutcome.NOTHING, snapshot=snapshot)
        if snapshot.busy:
            return DriftCheckResult(outcome=CheckOutcome.BUSY, snapshot=snapshot)
        try:
            return self._read(snapshot, digest_key)
        except (SinkError, SecretError) as error:
            self._note_failure(ledger, error)
            return DriftCheckResult(outcome=CheckOutcome.FAILED, snapshot=snapshot)

    def _read(self, snapshot: DriftSnapshot, digest_key: bytes) -> DriftCheckResult:
        ledger, bundle = snapshot.ledger, self.bundle()
        rule = bundle.find_rule(ledger.rule_id)
        if rule is None or rule.datasource != ledger.datasource:
            return DriftCheckResult(outcome=CheckOutcome.ORPHAN, snapshot=snapshot)
        sink = self.open_sink(bundle.datasource(rule.datasource))
        if not _is_assigned(rule, ledger, sink):
            return DriftCheckResult(outcome=CheckOutcome.ORPHAN, snapshot=snapshot)
        owner = Owner(
            rule=ledger.rule_id, repo=ledger.repo, env=ledger.env, former_rules=ledger.former_rules
        )
        live = sink.read(snapshot.destination, owner, sorted(ledger.records()))
        return DriftCheckResult(
            outcome=CheckOutcome.READ,
            snapshot=snapshot,
            comparison=compare(ledger, live, sink.capabilities, owner, digest_key),
            live=live,
            foreign_listed=sink.capabilities.foreign_listing,
        )

    def _note_failure(self, ledger: Ledger, error: SinkError | SecretError) -> None:
        code = error.code if isinstance(error, SinkError) else "secret_unavailable"
        log.warning(
            "%s cannot be read: %s",
            ledger.datasource,
            error,
            extra={"event": "poll_failed", "code": code, **_target_fields(ledger)},
        )

    def record(self, check: DriftCheckResult, *, notified: bool = False) -> str:
        """Record a check; return the id of the episode whose heal is due or under way, if any."""
        match check.outcome:
            case CheckOutcome.ORPHAN:
                if check.snapshot is not None:
                    self.facts.pop(check.ledger.unit_id, None)
            case CheckOutcome.NOTHING if check.ledger.applied is None:
                self._set_status(check, TargetStatus.UNKNOWN)
            case CheckOutcome.BUSY if check.snapshot is not None:
                row = drift.open_episode(check.ledger.unit_id)
                ours = (
                    row is not None
                    and drift_records.heal_of(row).last_task_id == check.snapshot.busy_task
                )
                self._set_status(check, TargetStatus.HEALING if ours else TargetStatus.SYNCING)
            case CheckOutcome.READ:
                return self._note_comparison(check, notified=notified)
            case _:
                """Keep the last status."""
        return ""

    def _note_comparison(self, check: DriftCheckResult, *, notified: bool) -> str:
        row = drift.open_episode(check.ledger.unit_id)
        if check.comparison:
            return self._note_drift(check, row)
        if not notified:  # a writer must not shorten pauses by many notifications
            heal_state = self.heal_states.of(check.ledger.unit_id)
            self.heal_states.put(check.ledger.unit_id, after_clean(heal_state, self.now()))
        return self._clean(check, row)

    def _clean(self, check: DriftCheckResult, row: Drift | None) -> str:
        """Record that there is no drift; an attempt under way ends its episode itself."""
        ledger = check.ledger
        healing = row is not None and row.state == Episode.HEALING
        if row is not None and not healing:
            is_synced = ledger.applied and ledger.applied.generation != row.generation
            by = "sync" if is_synced else "external"
            drift_records.close(row, Episode.RESOLVED, by=by)
            log.info(
                "drift is gone", extra={"event": "drift_resolved", **_episode_fields(row), "by": by}
            )
        status = TargetStatus.HEALING if healing else TargetStatus.IN_SYNC
        self._set_status(check, TargetStatus.INCONSISTENT if check.is_inconsistent else status)
        return row.id if row is not None and healing else ""

    def _note_drift(self, check: DriftCheckResult, row: Drift | None) -> str:
        ledger, now = check.ledger, self.now()
        before = self.heal_states.of(ledger.unit_id)
        heal_state = after_drift(before, now, self.poll_interval_s, opened=row is None)
        flapping = heal_state.flapping
        opened = row is None
        if row is None:
            drift_records.begin_episode(ledger, check.comparison, now, flapping=flapping)
        else:
            drift_records.continue_episode(row, ledger, check.comparison, now, flapping=flapping)
        row = drift.open_episode(ledger.unit_id)
        if row is None:
            return ""  # another watcher has closed it meanwhile
        self.heal_states.put(ledger.unit_id, heal_state)
        if opened:
            self.metrics.drift.labels(ledger.datasource).inc()
        self._log_drift(check, row, flapping=flapping)
        if flapping and not before.flapping:
            log.error(
                "drift returns again and again", extra={"event": "flapping", **_episode_fields(row)}
            )
        healing = row.state == Episode.HEALING
        status = drift_status(heal_state, healing=healing, inconsistent=check.is_inconsistent)
        self._set_status(check, status)
        rule = self.bundle().find_rule(row.rule_id)
        may = rule is not None and rule.self_heal and may_heal(heal_state, now)
        return row.id if healing or may else ""

    def _set_status(self, check: DriftCheckResult, status: TargetStatus) -> None:
        assert check.snapshot is not None
        ledger, bundle = check.ledger, self.bundle()
        heal_state = self.heal_states.of(ledger.unit_id)
        self.facts[ledger.unit_id] = TargetFacts(
            datasource=ledger.datasource,
            rule=ledger.rule_id,
            env=env_label(bundle, ledger.env),
            status=status,
            drift_keys=len(check.comparison.changes),
            foreign_keys=check.comparison.foreign_count,
            flapping=heal_state.flapping,
            unhealed=is_unhealed(heal_state),
        )
        drift_records.write_status(ledger.unit_id, check.snapshot.status, status)

    def set_status_of_heal(self, unit_id: str, status: TargetStatus) -> None:
        """Set the status that a heal leads to, until the next check."""
        fact = self.facts.get(unit_id)
        if fact is None or (
            status is TargetStatus.HEALING and fact.status is not TargetStatus.DRIFTED
        ):
            return
        left = 0 if status is TargetStatus.IN_SYNC else fact.drift_keys
        self.facts[unit_id] = replace(fact, status=status, drift_keys=left)
        drift_records.write_status(unit_id, fact.status, status)

    def _log_drift(self, check: DriftCheckResult, row: Drift, *, flapping: bool) -> None:
        """Log a line for each check that finds drift, with names of keys only."""
        comparison, rule = check.comparison, self.bundle().find_rule(row.rule_id)
        named = {kind.value: comparison.keys(kind) for kind in Difference}
        fields: dict[str, object] = {name: list(keys[:MAX_LISTED]) for name, keys in named.items()}
        if rule is not None and rule.sync_mode == "LIVE_STATE" and check.foreign_listed:
            named["foreign"] = comparison.foreign
            fields["foreign"] = list(comparison.foreign[:MAX_LISTED])
        if any(len(keys) > MAX_LISTED for keys in named.values()):
            fields["truncated"] = True
        if self.log_values:
            fields["values"] = _values(check)
        log.warning(
            "the live state of %s differs from Git",
            row.destination,
            extra={
                "event": "drift_detected",
                **_episode_fields(row),
                "polls": row.polls,
                "counts": comparison.counts,
                **fields,
                "self_heal": rule is not None and rule.self_heal,
                "flapping": flapping,
                "detected_at": clock.rfc3339(self.now()),
            },
        )


def _values(check: DriftCheckResult) -> dict[str, str]:
    """Return live values of changed keys, but not of added ones, which may be secrets."""
    live = check.live.values
    changed = [
        change.key
        for change in check.comparison.changes
        if change.kind is Difference.CHANGED and not change.secret
    ]
    return {key: live[key][:MAX_VALUE] for key in changed[:MAX_LISTED] if key in live}


def _target_fields(ledger: Ledger) -> dict[str, str]:
    return {
        "rule_id": ledger.rule_id,
        "datasource": ledger.datasource,
        "env": ledger.env,
        "repo": ledger.repo,
        "destination": ledger.destination,
    }


def _episode_fields(row: Drift) -> dict[str, object]:
    names = ("rule_id", "platform", "datasource", "env", "tenant", "repo", "ref", "destination")
    named = {name: getattr(row, name) for name in names}
    return {"drift_id": row.id, **named, "commit": row.commit, "generation": row.generation}


def _is_assigned(rule: Rule, ledger: Ledger, sink: Sink) -> bool:
    """Return whether the rule still takes the repository and writes to this destination."""
    if ledger.applied is None or not is_for(rule, ledger.repo):
        return False
    target = TargetLocation(
        repo=ledger.repo,
        env=ledger.env,
        ref=ledger.applied.ref,
        destination_id=ledger.destination_id,
    )
    return is_produced(rule, target, sink)
