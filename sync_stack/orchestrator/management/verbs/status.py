"""`partita sync status`: targets, what they hold, and which are behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from django.core.management.base import CommandParser

from sync_stack.core.drift import TargetStatus
from sync_stack.orchestrator.domain.target_lag import TargetLag
from sync_stack.orchestrator.management.base import CommandAnswer, SyncVerb
from sync_stack.orchestrator.models import LedgerTarget
from sync_stack.orchestrator.selectors import lags, ledgers
from sync_stack.orchestrator.selectors.lags import UnappliedRef
from sync_stack.orchestrator.server.documents import target_document, unapplied_document

_MOST: Final = 10_000
_BY_HAND: Final = (TargetStatus.DRIFTED, TargetStatus.FLAPPING, TargetStatus.HEALING)
_UNFILTERABLE: Final = ("env", "datasource", "status")  # what a ref without a target has not


class StatusVerb(SyncVerb):
    name = "status"
    text = "list targets: what they hold, which are behind, since when and why"
    help = (
        "List targets: what each destination holds, from which commit, and its status. A target "
        "is behind when it does not hold the head of its ref that is known: the task that waits "
        "or failed, and what to do, is below the table. So are refs of which nothing was applied."
    )
    examples = """\
  partita sync status
  partita sync status --behind
  partita sync status --rule shop --env production
  partita sync status --status drifted -o json"""
    columns = (
        *("RULE", "REPOSITORY", "ENV", "DESTINATION", "COMMIT", "GENERATION"),
        *("KEYS", "APPLIED", "STATUS", "BEHIND"),
    )
    filters = ("rule", "repo", "env", "datasource")
    choices: ClassVar = {"status": TargetStatus}

    def add_more(self, parser: CommandParser) -> None:
        parser.add_argument("--behind", action="store_true", help="only what is behind")

    def answer(self, options: Mapping[str, Any]) -> CommandAnswer:
        where = self.column_filters(options)
        targets = ledgers.list_targets(where, after="", limit=_MOST)
        behind = lags.list_lags(targets)
        if options["behind"]:
            targets = [target for target in targets if target.id in behind]
        unapplied = [] if where.keys() & set(_UNFILTERABLE) else lags.list_unapplied(where)
        shown = {target.id: target_document(target, behind.get(target.id)) for target in targets}
        return CommandAnswer(
            document={
                "targets": list(shown.values()),
                "unapplied": [unapplied_document(ref) for ref in unapplied],
            },
            rows=[_row(target, behind.get(target.id)) for target in targets],
            notes=[*_lag_notes(targets, behind), *_unapplied_notes(unapplied), *_drift(targets)],
        )


def _row(target: LedgerTarget, lag: TargetLag | None) -> tuple[Any, ...]:
    return (
        target.rule_id,
        target.repo,
        target.env,
        target.destination,
        target.commit[:12],
        target.generation,
        target.keys,
        target.applied_at or "-",
        f"{target.status}{', stale' if target.stale_since else ''}",
        (lag.code or lag.state) if lag else "-",
    )


def _lag_notes(targets: Sequence[LedgerTarget], behind: Mapping[str, TargetLag]) -> Iterator[str]:
    for target in targets:
        if lag := behind.get(target.id):
            place = f"{target.rule_id} {target.repo} {target.env} at {target.destination}"
            yield from _explanation(f"{place}: behind since {lag.since}", lag)


def _unapplied_notes(unapplied: Sequence[UnappliedRef]) -> Iterator[str]:
    for ref in unapplied:
        place = " ".join(filter(None, (ref.rule, ref.repo, ref.ref)))
        yield from _explanation(f"{place}: nothing applied yet, since {ref.lag.since}", ref.lag)


def _explanation(beginning: str, lag: TargetLag) -> Iterator[str]:
    why = f", {lag.code}: {lag.detail}" if lag.code else f", {lag.detail}" if lag.detail else ""
    place = f" ({lag.place})" if lag.file else ""
    yield f"{beginning}: {lag.state}{why}{place}"
    yield f"  next: {lag.next_step}"


def _drift(targets: Sequence[LedgerTarget]) -> Iterator[str]:
    changed = sum(target.status in _BY_HAND for target in targets)
    if changed:
        yield f"changed outside Git: {changed} of {len(targets)} targets"
        yield "  next: partita sync drift --state open"
