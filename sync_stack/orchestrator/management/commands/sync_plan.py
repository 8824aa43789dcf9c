"""`partita sync_plan`: plan a sync of a rule without writing."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from sync_stack.orchestrator.domain.task_documents import StoredError, TaskRequest, TaskResult
from sync_stack.orchestrator.management.base import SyncCommand, add_filters, rule_of
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.server.documents import task_document
from sync_stack.orchestrator.services.operator_requests import (
    run_here,
    trigger_manual,
)

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
        with self.open_configuration() as configuration:
            rule = rule_of(configuration.bundle, options["rule"])
            ports = self.ports(configuration)
            planned = trigger_manual(
                ports,
                rule,
                repo=options["repo"],
                env=options["env"],
                max_attempts=1,
                dry_run=True,
            )
            done = [run_here(task, ports) for task in planned]
        rows = [row for task in done for row in _rows(task)]
        self.show(options, {"tasks": [task_document(task) for task in done]}, _COLUMNS, rows)
        failed = [f"{task.id}: {_reason(task)}" for task in done if task.state != "SUCCEEDED"]
        if failed:
            raise CommandError("not planned: " + "; ".join(failed))


def _reason(task: Task) -> str:
    if not task.error:
        return f"still {task.state}"
    error = StoredError.of(task.error)
    place = f" ({error.file}:{error.line})" if error.file else ""
    return f"{error.code}: {error.detail}{place}"


def _rows(task: Task) -> list[tuple[Any, ...]]:
    targets = TaskResult.of(task.result).targets
    if not targets:
        events = TaskRequest.of(task.request).events
        return [(events[0].repo, "-", "-", 0, 0, 0, task.message)]
    return [
        (
            target.repo,
            target.env or "-",
            target.destination or "-",
            target.written,
            target.pruned,
            target.unchanged,
            target.error.code if target.error else target.outcome,
        )
        for target in targets
    ]
