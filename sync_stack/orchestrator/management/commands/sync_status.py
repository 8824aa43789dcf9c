"""`manage.py sync_status`: units, what they hold, and how they stand."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from sync_stack.orchestrator.management.base import SyncCommand
from sync_stack.orchestrator.rows import overview
from sync_stack.orchestrator.serving.documents import unit_document

_COLUMNS = ("RULE", "REPOSITORY", "ENV", "DESTINATION", "COMMIT", "GENERATION", "KEYS", "STATUS")


class Command(SyncCommand):
    help = "List units. Example: manage.py sync_status --rule shop -o json"

    def add_more(self, parser: CommandParser) -> None:
        parser.add_argument("--rule", default="")

    def handle(self, **options: Any) -> None:
        where = {"rule_id": options["rule"]} if options["rule"] else {}
        units = overview.list_units(where, after="", limit=10_000)
        rows = [
            (
                unit.rule_id,
                unit.repo,
                unit.env,
                unit.destination,
                unit.commit[:12],
                unit.generation,
                unit.keys,
                f"{unit.status}{', stale' if unit.stale_since else ''}",
            )
            for unit in units
        ]
        document = {"targets": [unit_document(unit) for unit in units]}
        self.show(options, document, _COLUMNS, rows)
