"""`manage.py sync_status`: units, what they hold, and how they stand."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from sync_stack.core.drift import TargetStatus
from sync_stack.orchestrator.management.base import SyncCommand, add_filters, given, known
from sync_stack.orchestrator.models import LedgerUnit
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.server.documents import unit_document

_COLUMNS = ("RULE", "REPOSITORY", "ENV", "DESTINATION", "COMMIT", "GENERATION", "KEYS", "APPLIED",
            "STATUS")  # fmt: skip
_MOST = 10_000


class Command(SyncCommand):
    help = (
        "List units: what each destination holds, from which commit, and how it stands "
        "(stale: Git could not be read, or its head not be parsed, since)."
    )
    examples = ("", "--rule shop --env production", "--status drifted -o json")

    def add_more(self, parser: CommandParser) -> None:
        add_filters(parser, "rule", "repo", "env", "datasource")
        parser.add_argument("--status", default="", help=", ".join(TargetStatus))

    def handle(self, **options: Any) -> None:
        status = options["status"] = options["status"].lower()
        if status and status not in set(TargetStatus):
            raise CommandError(f"no status {status!r} ({known(status, TargetStatus)})")
        self.check_rule(options["rule"])
        columns = {name: name for name in ("repo", "env", "datasource", "status")}
        where = given(options, rule="rule_id", **columns)
        units = ledgers.list_units(where, after="", limit=_MOST)
        document = {"targets": [unit_document(unit) for unit in units]}
        self.show(options, document, _COLUMNS, [_row(unit) for unit in units])


def _row(unit: LedgerUnit) -> tuple[Any, ...]:
    return (
        unit.rule_id,
        unit.repo,
        unit.env,
        unit.destination,
        unit.commit[:12],
        unit.generation,
        unit.keys,
        unit.applied_at or "-",
        f"{unit.status}{', stale' if unit.stale_since else ''}",
    )
