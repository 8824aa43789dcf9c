"""`partita sync status`: targets, what they hold, and which are behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from django.core.management.base import CommandParser

from kernel import clock
from partita_client.command.sync_views import INCOMPLETE
from sync_stack.core.drift import TargetStatus
from sync_stack.orchestrator.domain.target_lag import TargetLag
from sync_stack.orchestrator.management.base import CommandAnswer, SyncVerb, age_of
from sync_stack.orchestrator.models import LedgerTarget
from sync_stack.orchestrator.selectors import lags, ledgers
from sync_stack.orchestrator.selectors.lags import UnappliedRef, UnappliedRefs
from sync_stack.orchestrator.server.documents import target_document, unapplied_document

_MOST: Final = 10_000
_NO_REFS: Final = UnappliedRefs(refs=(), is_cut=False)
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
        *("KEYS", "AGE", "STATUS", "BEHIND"),
    )
    wide_columns = ("SINCE", "REF", "DATASOURCE", "APPLIED", "ID")
    filters = ("rule", "repo", "env", "datasource")
    choices: ClassVar = {"status": TargetStatus}

    def add_more(self, parser: CommandParser) -> None:
        parser.add_argument("--behind", action="store_true", help="only what is behind")

    def answer(self, options: Mapping[str, Any]) -> CommandAnswer:
        where = self.column_filters(options)
        targets = ledgers.list_targets(where, after="", limit=_MOST)
        found = lags.list_lags(targets)
        behind = found.by_target
        if options["behind"]:
            targets = [target for target in targets if target.id in behind]
        has_refs = not where.keys() & set(_UNFILTERABLE)
        unapplied = lags.list_unapplied(where) if has_refs else _NO_REFS
        is_cut = found.is_cut or unapplied.is_cut
        return CommandAnswer(
            document={
                "targets": [target_document(each, behind.get(each.id)) for each in targets],
                "unapplied": [unapplied_document(ref) for ref in unapplied.refs],
                **({"incomplete": True} if is_cut else {}),
            },
            rows=[_row(target, behind.get(target.id)) for target in targets],
            notes=[
                *_lag_notes(targets, behind),
                *_unapplied_notes(unapplied.refs),
                *_drift(targets),
                *([INCOMPLETE] if is_cut else []),
            ],
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
        _age(target.applied_at),
        f"{target.status}{', stale' if target.stale_since else ''}",
        (lag.code or lag.state) if lag else "-",
        (lag.since or "-") if lag else "-",
        target.ref or "-",
        target.datasource,
        target.applied_at or "-",
        target.id,
    )


def _age(time: str) -> str:
    """Return the age of an RFC 3339 time, a dash for an empty text."""
    return age_of(clock.parse_rfc3339(time) if time else None)


def _lag_notes(targets: Sequence[LedgerTarget], behind: Mapping[str, TargetLag]) -> Iterator[str]:
    for target in targets:
        if lag := behind.get(target.id):
            place = f"{target.rule_id} {target.repo} {target.env} at {target.destination}"
            yield from _explanation(f"{place}: behind for {_age(lag.since)}", lag)


def _unapplied_notes(unapplied: Sequence[UnappliedRef]) -> Iterator[str]:
    for ref in unapplied:
        place = " ".join(filter(None, (ref.rule, ref.repo, ref.ref)))
        yield from _explanation(f"{place}: nothing applied for {_age(ref.lag.since)}", ref.lag)


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
