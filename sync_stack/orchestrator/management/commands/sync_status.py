"""`partita sync_status`: targets, their contents and their status."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from sync_stack.core.drift import TargetStatus
from sync_stack.orchestrator.management.base import (
    SyncCommand,
    add_filters,
    check_choice,
    column_filters,
)
from sync_stack.orchestrator.models import LedgerTarget
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.server.documents import target_document

_COLUMNS = ("RULE", "REPOSITORY", "ENV", "DESTINATION", "COMMIT", "GENERATION", "KEYS", "APPLIED",
            "STATUS")  # fmt: skip
_MOST = 10_000


class Command(SyncCommand):
    help = (
        "List targets: what each destination holds, from which commit, and its status "
        "(stale: Git could not be read since, or the head of the ref not parsed)."
    )
    examples = ("", "--rule shop --env production", "--status drifted -o json")

    def add_more(self, parser: CommandParser) -> None:
        add_filters(parser, "rule", "repo", "env", "datasource")
        parser.add_argument("--status", default="", help=", ".join(TargetStatus))

    def handle(self, **options: Any) -> None:
        status = options["status"] = options["status"].lower()
        check_choice("status", status, TargetStatus)
        self.check_rule(options["rule"])
        columns = {name: name for name in ("repo", "env", "datasource", "status")}
        where = column_filters(options, rule="rule_id", **columns)
        targets = ledgers.list_targets(where, after="", limit=_MOST)
        document = {"targets": [target_document(target) for target in targets]}
        self.show(options, document, _COLUMNS, [_row(target) for target in targets])


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
