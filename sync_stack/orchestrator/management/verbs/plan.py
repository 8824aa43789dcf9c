"""`partita sync plan`: plan a sync of a rule without writing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sync_stack.orchestrator.domain.task_documents import StoredError, TaskRequest, TaskResult
from sync_stack.orchestrator.management.base import CommandAnswer, RuleVerb
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.server.documents import task_document
from sync_stack.orchestrator.services.operator_requests import run_here


class PlanVerb(RuleVerb):
    name = "plan"
    text = "show what a sync would change"
    help = (
        "Plan a rule without writing: what would be written and pruned now, and what a guard or a "
        "bad file would stop. Secrets are not fetched."
    )
    examples = """\
  partita sync plan --rule shop
  partita sync plan --rule shop --repo acme/shop --env production -o json"""
    columns = ("REPOSITORY", "ENV", "DESTINATION", "WRITE", "PRUNE", "UNCHANGED", "OUTCOME")

    def answer(self, options: Mapping[str, Any]) -> CommandAnswer:
        with self.open_ports() as ports:
            planned = self.create_tasks(ports, options, max_attempts=1, dry_run=True)
            done = [run_here(task, ports) for task in planned]
        failed = [f"{task.id}: {_reason(task)}" for task in done if task.state != "SUCCEEDED"]
        return CommandAnswer(
            document={"tasks": [task_document(task) for task in done]},
            rows=[row for task in done for row in _rows(task)],
            failure=f"not planned: {'; '.join(failed)}" if failed else "",
        )


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
