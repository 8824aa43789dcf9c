"""`manage.py sync_plan`: what a sync of a rule would do now; nothing is written."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from sync_stack.configuration.secrets import SecretError
from sync_stack.orchestrator.execution.running import execute
from sync_stack.orchestrator.management.base import SyncCommand
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.rows import tasks
from sync_stack.orchestrator.services.create import TooManyTasks
from sync_stack.orchestrator.services.manual import NothingToSync, remotes, trigger_manual
from sync_stack.orchestrator.serving.documents import task_document
from sync_stack.repositories import GitError

_COLUMNS = ("REPOSITORY", "ENV", "DESTINATION", "WRITE", "PRUNE", "UNCHANGED", "OUTCOME")


class Command(SyncCommand):
    help = "Plan a rule without writing. Example: manage.py sync_plan --rule shop --env production"

    def add_more(self, parser: CommandParser) -> None:
        parser.add_argument("--rule", required=True)
        parser.add_argument("--repo", default="")
        parser.add_argument("--env", default="")

    def handle(self, **options: Any) -> None:
        configuration = self.bundle()
        try:
            done = self._planned(configuration, options)
        except (NothingToSync, TooManyTasks, GitError, SecretError) as error:
            raise CommandError(str(error) or type(error).__name__) from error
        finally:
            configuration.close()
        document = {"plans": [task_document(task) for task in done]}
        rows = [_row(target) for task in done for target in task.result.get("targets", ())]
        self.show(options, document, _COLUMNS, rows)

    def _planned(self, configuration: Any, options: dict[str, Any]) -> list[Task]:
        ports = self.ports(configuration)
        made = trigger_manual(
            configuration.bundle,
            options["rule"],
            remotes(ports),
            repo=options["repo"],
            env=options["env"],
            request={"dry_run": True},
        )
        for task in made:
            execute(task.id, ports)
        return [done for task in made if (done := tasks.get(task.id))]


def _row(target: dict[str, Any]) -> tuple[Any, ...]:
    error = target.get("error") or {}
    counts = [target.get(name, 0) for name in ("written", "pruned", "unchanged")]
    where = [target.get(name, "") for name in ("repo", "env", "destination")]
    return (*where, *counts, error.get("code") or target["outcome"])
