"""`manage.py sync_plan`: plan a sync of a rule without writing."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from sync_stack.configuration.secrets import SecretError
from sync_stack.orchestrator.management.base import SyncCommand, add_filters, rule_of
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.server.documents import task_document
from sync_stack.orchestrator.services.operator_requests import (
    NothingToSync,
    remotes,
    run_here,
    trigger_manual,
)
from sync_stack.orchestrator.services.task_creation import TooManyTasks
from sync_stack.repositories import GitError

_COLUMNS = ("REPOSITORY", "ENV", "DESTINATION", "WRITE", "PRUNE", "UNCHANGED", "OUTCOME")


class Command(SyncCommand):
    help = (
        "Plan a rule without writing: what would be written and pruned now, and what a guard or a "
        "bad file would stop. Secrets are not fetched."
    )
    examples = ("--rule shop", "--rule shop --repo acme/shop --env production -o json")

    def add_more(self, parser: CommandParser) -> None:
        parser.add_argument("--rule", required=True)
        add_filters(parser, "repo", "env")

    def handle(self, **options: Any) -> None:
        configuration = self.bundle()
        try:
            rule_of(configuration.bundle, options["rule"])
            done = self._planned(configuration, options)
        except (NothingToSync, TooManyTasks, GitError, SecretError) as error:
            raise CommandError(str(error) or "too many tasks wait already") from error
        finally:
            configuration.close()
        rows = [row for task in done for row in _rows(task)]
        self.show(options, {"tasks": [task_document(task) for task in done]}, _COLUMNS, rows)
        failed = [f"{task.id}: {_reason(task)}" for task in done if task.state != "SUCCEEDED"]
        if failed:
            raise CommandError("not planned: " + "; ".join(failed))

    def _planned(self, configuration: Any, options: dict[str, Any]) -> list[Task]:
        ports = self.ports(configuration)
        made = trigger_manual(
            configuration.bundle,
            options["rule"],
            remotes(ports),
            repo=options["repo"],
            env=options["env"],
            max_attempts=1,
            request={"dry_run": True},
        )
        return [run_here(task, ports) for task in made]


def _reason(task: Task) -> str:
    error = task.error
    place = f" ({error['file']}:{error.get('line', 0)})" if error.get("file") else ""
    return f"{error['code']}: {error['detail']}{place}" if error else f"still {task.state}"


def _rows(task: Task) -> list[tuple[Any, ...]]:
    targets = task.result.get("targets", ())
    if not targets:
        events = task.request["events"]
        return [(events[0]["repo"], "-", "-", 0, 0, 0, task.message)]
    return [_row(target) for target in targets]


def _row(target: dict[str, Any]) -> tuple[Any, ...]:
    error = target.get("error") or {}
    counts = [target.get(name, 0) for name in ("written", "pruned", "unchanged")]
    where = [target.get(name, "-") for name in ("repo", "env", "destination")]
    return (*where, *counts, error.get("code") or target["outcome"])
