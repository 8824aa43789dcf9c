"""Heals: the ledger's commit again, at one unit, whatever the ref is now.

(reference: sync-stack 4.4, 6.5)
"""

from __future__ import annotations

from typing import Any

from sync_stack.core.ledger import Ledger
from sync_stack.orchestrator.execution import results
from sync_stack.orchestrator.execution.applying import apply_units
from sync_stack.orchestrator.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.execution.destination_lock import held
from sync_stack.orchestrator.execution.ref_state import RefState
from sync_stack.orchestrator.execution.repository_overrides import overrides_at
from sync_stack.orchestrator.execution.sources import git_source, rule_digest
from sync_stack.orchestrator.execution.units import UnitFiles, place_unit
from sync_stack.orchestrator.rows import ledgers
from sync_stack.orchestrator.rows.ledgers import TargetKey
from sync_stack.repositories import Remote


def heal_part(attempt: Attempt, part: RuleSync) -> dict[str, Any]:
    """Ends `superseded` when the ledger is no longer the one that the watcher compared with."""
    ledger = _wanted(attempt, part)
    if ledger is None or ledger.applied is None:
        return _superseded(attempt, part)
    reading = _reading(attempt, part, ledger)
    tree = attempt.tree(reading.source, reading.head, ref=part.event.ref)
    files = UnitFiles(env=ledger.env, files=ledger.applied.files)
    unit = place_unit(attempt, part, files, part.event)
    with held(attempt, [unit]):
        current = _wanted(attempt, part)
        if current is None or unit.destination.id != current.destination_id:
            return _superseded(attempt, part)
        unit.ledger = current
        return apply_units(attempt, part, reading, [unit], tree)


def _wanted(attempt: Attempt, part: RuleSync) -> Ledger | None:
    """The unit's ledger, if it is still what the heal is for: generation, ref, commit and rule."""
    asked = attempt.task.request["heal"]
    key = TargetKey(
        rule=part.rule.name,
        repo=part.event.repo,
        env=asked["env"],
        destination_id=asked["destination_id"],
    )
    ledger = ledgers.find(key)
    if ledger is None or ledger.applied is None:
        return None
    applied = ledger.applied
    same = (
        asked["generation"] in (0, applied.generation)
        and asked.get("ref", "") in ("", applied.ref)
        and asked.get("commit", "") in ("", applied.commit)
    )
    digest = rule_digest(attempt.bundle, part.rule)
    return ledger if same and applied.rule_digest == digest else None


def _reading(attempt: Attempt, part: RuleSync, ledger: Ledger) -> RefState:
    assert ledger.applied is not None
    platform = attempt.bundle.platform(part.rule.platform)
    source = git_source(platform, part.rule, part.event.repo, attempt.ports.resolve)
    own = overrides_at(attempt, source, part.rule, ledger.applied.override_commit)
    return RefState(
        source=source,
        remote=Remote(head_branch=""),
        head=ledger.applied.commit,
        event=part.event,
        rule=own.rule,
        rule_digest=ledger.applied.rule_digest,
        override_commit=ledger.applied.override_commit,
    )


def _superseded(attempt: Attempt, part: RuleSync) -> dict[str, Any]:
    outcome = results.outcome("superseded")
    attempt.finish_part(part, outcome)
    return outcome
