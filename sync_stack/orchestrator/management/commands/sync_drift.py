"""`partita sync_drift`: episodes of drift, newest first."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from kernel import clock
from sync_stack.core.drift import Episode
from sync_stack.orchestrator.management.base import (
    SyncCommand,
    add_filters,
    check_choice,
    column_filters,
)
from sync_stack.orchestrator.selectors import drift
from sync_stack.orchestrator.server.documents import drift_document

_COLUMNS = ("DRIFT", "RULE", "REPOSITORY", "ENV", "STATE", "SINCE", "POLLS", "CHANGED", "ADDED",
            "REMOVED")  # fmt: skip


class Command(SyncCommand):
    help = "List episodes of drift, newest first; -o json names every key that differs."
    examples = ("--state open", "--rule shop --env production -o json")

    def add_more(self, parser: CommandParser) -> None:
        add_filters(parser, "rule", "repo", "env", "datasource")
        parser.add_argument("--state", default="", help=", ".join(Episode))
        parser.add_argument("--limit", type=int, default=200)

    def handle(self, **options: Any) -> None:
        state = options["state"].lower()
        check_choice("state", state, Episode)
        self.check_rule(options["rule"])
        where = column_filters(
            options, rule="rule_id", repo="repo", env="env", datasource="datasource"
        )
        where |= {"state": state} if state else {}
        limit = max(1, options["limit"])
        found = drift.list_drift(where, since=None, before="", limit=limit)
        rows = [
            (
                drift.id,
                drift.rule_id,
                drift.repo,
                drift.env,
                f"{drift.state}{', flapping' if drift.flapping else ''}",
                clock.rfc3339(drift.first_seen_at),
                drift.polls,
                *(drift.counts.get(name, 0) for name in ("changed", "added", "removed")),
            )
            for drift in found
        ]
        self.show(options, {"drift": [drift_document(drift) for drift in found]}, _COLUMNS, rows)
