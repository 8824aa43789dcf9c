"""`manage.py sync_orphans`: units that no rule yields any more."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from sync_stack.orchestrator.management.base import SyncCommand
from sync_stack.orchestrator.services.manual import orphans, release_orphan
from sync_stack.orchestrator.serving.documents import unit_document

_COLUMNS = ("RULE", "REPOSITORY", "ENV", "DESTINATION", "KEYS", "RELEASED")


class Command(SyncCommand):
    help = (
        "List orphans; --release forgets them, what they wrote stays. "
        "Example: manage.py sync_orphans -o json"
    )

    def add_more(self, parser: CommandParser) -> None:
        parser.add_argument("--release", action="store_true")

    def handle(self, **options: Any) -> None:
        configuration = self.bundle()
        found = orphans(configuration.bundle)
        configuration.close()
        released = {unit.id for unit in found if options["release"] and release_orphan(unit)}
        document = {"orphans": [unit_document(u) | {"released": u.id in released} for u in found]}
        rows = [
            (u.rule_id, u.repo, u.env, u.destination, u.keys, "yes" if u.id in released else "no")
            for u in found
        ]
        self.show(options, document, _COLUMNS, rows)
