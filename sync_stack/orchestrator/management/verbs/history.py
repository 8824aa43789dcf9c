"""`partita sync history`: tasks and their results, newest first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from django.core.management.base import CommandError, CommandParser

from kernel import clock
from kernel.commands import ExitCode
from sync_stack.core.tasks import State, TaskKind
from sync_stack.orchestrator.domain.task_documents import TaskRequest, TaskResult
from sync_stack.orchestrator.management.base import CommandAnswer, SyncVerb, age_of
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.selectors import tasks
from sync_stack.orchestrator.server.documents import task_document

_SHOWN: Final = 12
_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}")


class HistoryVerb(SyncVerb):
    name = "history"
    text = "list tasks and their results, newest first"
    help = "List tasks, newest first: what was requested, and the result."
    examples = """\
  partita sync history --repo acme/shop --env production
  partita sync history --commit 9f1c22ab
  partita sync history --state failed --limit 5 -o json"""
    columns = ("TASK", "AGE", "KIND", "STATE", "MESSAGE", "COMMIT", "WRITTEN", "PRUNED")
    wide_columns = ("CREATED", "FINISHED", "ATTEMPT", "DELIVERY")
    filters = ("rule", "repo", "ref", "env")
    choices: ClassVar = {"state": State, "kind": TaskKind}
    limit = 50

    def add_more(self, parser: CommandParser) -> None:
        parser.add_argument("--commit", default="", help="of the event, at least 7 digits")

    def answer(self, options: Mapping[str, Any]) -> CommandAnswer:
        where = {name: options[name] for name in self.choices if options[name]}
        facets = [f"{name}:{options[name]}\n" for name in self.filters if options[name]]
        if commit := options["commit"].lower():
            if not _COMMIT.fullmatch(commit):
                raise CommandError(
                    f"--commit {commit!r}: expected at least 7 hex digits",
                    returncode=ExitCode.USAGE,
                )
            facets.append(f"commit:{commit}")
        found = tasks.list_tasks(where, facets, before="", limit=options["limit"])
        rows = [
            (
                task.id,
                age_of(task.created_at),
                task.kind,
                task.state,
                task.message,
                _commit(task, result) or "-",
                result.written,
                result.pruned,
                clock.rfc3339(task.created_at),
                clock.rfc3339(task.finished_at) if task.finished_at else "-",
                task.attempt,
                task.delivery_id or "-",
            )
            for task in found
            for result in [TaskResult.of(task.result)]
        ]
        document = {"tasks": [task_document(task, whole=False) for task in found]}
        return CommandAnswer(document=document, rows=rows)


def _commit(task: Task, result: TaskResult) -> str:
    """Return the commit that was applied, else the one that the event names."""
    applied = [target.commit for target in result.targets]
    named = [event.commit for event in TaskRequest.of(task.request).events]
    return next(filter(None, [*applied, *named]), "")[:_SHOWN]
