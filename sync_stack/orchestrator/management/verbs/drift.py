"""`partita sync drift`: episodes of drift, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kernel import clock
from sync_stack.core.drift import Episode
from sync_stack.orchestrator.management.base import CommandAnswer, SyncVerb, age_of
from sync_stack.orchestrator.selectors import drift
from sync_stack.orchestrator.server.documents import drift_document


class DriftVerb(SyncVerb):
    name = "drift"
    text = "list manual changes and how they were healed"
    help = "List episodes of drift, newest first; -o json names every key that differs."
    examples = """\
  partita sync drift --state open
  partita sync drift --rule shop --env production -o json"""
    columns = (
        *("DRIFT", "RULE", "REPOSITORY", "ENV", "STATE", "AGE"),
        *("POLLS", "CHANGED", "ADDED", "REMOVED"),
    )
    wide_columns = ("DESTINATION", "SINCE", "SEEN")
    filters = ("rule", "repo", "env", "datasource")
    choices: ClassVar = {"state": Episode}
    limit = 200

    def answer(self, options: Mapping[str, Any]) -> CommandAnswer:
        where, limit = self.column_filters(options), options["limit"]
        found = drift.list_drift(where, since=None, before="", limit=limit)
        rows = [
            (
                drift.id,
                drift.rule_id,
                drift.repo,
                drift.env,
                f"{drift.state}{', flapping' if drift.flapping else ''}",
                age_of(drift.first_seen_at),
                drift.polls,
                *(drift.counts.get(name, 0) for name in ("changed", "added", "removed")),
                drift.destination,
                clock.rfc3339(drift.first_seen_at),
                clock.rfc3339(drift.last_seen_at),
            )
            for drift in found
        ]
        return CommandAnswer(
            document={"drift": [drift_document(drift) for drift in found]}, rows=rows
        )
