"""`partita sync status`: targets, their contents and their status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sync_stack.core.drift import TargetStatus
from sync_stack.orchestrator.management.base import CommandAnswer, SyncVerb
from sync_stack.orchestrator.models import LedgerTarget
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.server.documents import target_document

_MOST = 10_000


class StatusVerb(SyncVerb):
    name = "status"
    text = "list targets: what they hold, which are behind, since when and why"
    help = (
        "List targets: what each destination holds, from which commit, and its status "
        "(stale: Git could not be read since, or the head of the ref not parsed)."
    )
    examples = """\
  partita sync status
  partita sync status --rule shop --env production
  partita sync status --status drifted -o json"""
    columns = (
        *("RULE", "REPOSITORY", "ENV", "DESTINATION", "COMMIT", "GENERATION"),
        *("KEYS", "APPLIED", "STATUS"),
    )
    filters = ("rule", "repo", "env", "datasource")
    choices: ClassVar = {"status": TargetStatus}

    def answer(self, options: Mapping[str, Any]) -> CommandAnswer:
        targets = ledgers.list_targets(self.column_filters(options), after="", limit=_MOST)
        return CommandAnswer(
            document={"targets": [target_document(target) for target in targets]},
            rows=[_row(target) for target in targets],
        )


def _row(target: LedgerTarget) -> tuple[Any, ...]:
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
    )
