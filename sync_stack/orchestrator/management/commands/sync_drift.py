"""`manage.py sync_drift`: episodes of drift, newest first."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from sync_stack.orchestrator.management.base import SyncCommand
from sync_stack.orchestrator.rows import overview
from sync_stack.orchestrator.serving.documents import drift_document

_COLUMNS = ("DRIFT", "RULE", "REPOSITORY", "ENV", "STATE", "POLLS", "CHANGES")


class Command(SyncCommand):
    help = "List episodes of drift. Example: manage.py sync_drift --state open"

    def add_more(self, parser: CommandParser) -> None:
        parser.add_argument("--rule", default="")
        parser.add_argument("--state", default="")

    def handle(self, **options: Any) -> None:
        given = {"rule_id": options["rule"], "state": options["state"]}
        where = {name: value for name, value in given.items() if value}
        found = overview.list_drift(where, since=None, before="", limit=1000)
        rows = [
            (d.id, d.rule_id, d.repo, d.env, d.state, d.polls, sum(d.counts.values()))
            for d in found
        ]
        document = {"drift": [drift_document(drift) for drift in found]}
        self.show(options, document, _COLUMNS, rows)
