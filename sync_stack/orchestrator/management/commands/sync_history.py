"""`manage.py sync_history`: what tasks did, newest first."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from kernel import clock
from sync_stack.orchestrator.management.base import SyncCommand
from sync_stack.orchestrator.rows import overview
from sync_stack.orchestrator.serving.documents import task_document

_COLUMNS = ("TASK", "CREATED", "KIND", "STATE", "MESSAGE", "WRITTEN", "PRUNED")


class Command(SyncCommand):
    help = "List tasks. Example: manage.py sync_history --repo acme/shop --env production"

    def add_more(self, parser: CommandParser) -> None:
        for name in ("rule", "repo", "ref", "env"):
            parser.add_argument(f"--{name}", default="")
        parser.add_argument("--limit", type=int, default=50)

    def handle(self, **options: Any) -> None:
        names = ("rule", "repo", "ref", "env")
        facets = [f"{name}:{options[name]}\n" for name in names if options[name]]
        found = overview.list_tasks({}, facets, before="", limit=max(1, options["limit"]))
        rows = [
            (
                task.id,
                clock.rfc3339(task.created_at),
                task.kind,
                task.state,
                task.message,
                task.result.get("written", 0),
                task.result.get("pruned", 0),
            )
            for task in found
        ]
        document = {"tasks": [task_document(task, whole=False) for task in found]}
        self.show(options, document, _COLUMNS, rows)
