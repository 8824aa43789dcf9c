"""`partita sync_history`: tasks and their results, newest first."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from kernel import clock
from sync_stack.core.tasks import State, TaskKind
from sync_stack.orchestrator.domain.task_documents import TaskRequest, TaskResult
from sync_stack.orchestrator.management.base import SyncCommand, add_filters, check_choice
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.selectors import tasks
from sync_stack.orchestrator.server.documents import task_document

_COLUMNS = ("TASK", "CREATED", "KIND", "STATE", "MESSAGE", "COMMIT", "WRITTEN", "PRUNED")
_COMMIT = 12


class Command(SyncCommand):
    help = "List tasks, newest first: what was requested, and the result."
    examples = ("--repo acme/shop --env production", "--state failed --limit 5 -o json")

    def add_more(self, parser: CommandParser) -> None:
        add_filters(parser, "rule", "repo", "ref", "env")
        parser.add_argument("--state", default="", help=", ".join(State).lower())
        parser.add_argument("--kind", default="", help=", ".join(TaskKind))
        parser.add_argument("--limit", type=int, default=50)

    def handle(self, **options: Any) -> None:
        wanted = {"state": options["state"].upper(), "kind": options["kind"].lower()}
        check_choice("state", wanted["state"], State)
        check_choice("kind", wanted["kind"], TaskKind)
        where = {name: value for name, value in wanted.items() if value}
        self.check_rule(options["rule"])
        names = ("rule", "repo", "ref", "env")
        facets = [f"{name}:{options[name]}\n" for name in names if options[name]]
        found = tasks.list_tasks(where, facets, before="", limit=max(1, options["limit"]))
        rows = [
            (
                task.id,
                clock.rfc3339(task.created_at),
                task.kind,
                task.state,
                task.message,
                _commit(task, result) or "-",
                result.written,
                result.pruned,
            )
            for task in found
            for result in [TaskResult.of(task.result)]
        ]
        document = {"tasks": [task_document(task, whole=False) for task in found]}
        self.show(options, document, _COLUMNS, rows)


def _commit(task: Task, result: TaskResult) -> str:
    """Return the commit that was applied, else the one that the event names."""
    applied = [target.commit for target in result.targets]
    named = [event.commit for event in TaskRequest.of(task.request).events]
    return next(filter(None, [*applied, *named]), "")[:_COMMIT]
