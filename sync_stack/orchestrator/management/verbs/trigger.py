"""`partita sync trigger`: sync what a rule tracks now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sync_stack.orchestrator.domain.task_documents import TaskRequest
from sync_stack.orchestrator.management.base import CommandAnswer, RuleVerb
from sync_stack.orchestrator.server.documents import task_document


class TriggerVerb(RuleVerb):
    name = "trigger"
    text = "sync a rule now"
    help = (
        "Create a task for the head of each ref of a rule's targets, or of its repositories. The "
        "orchestrator runs it within seconds (partita sync history shows it)."
    )
    examples = """\
  partita sync trigger --rule shop
  partita sync trigger --rule shop --repo acme/shop --env production"""
    columns = ("TASK", "REPOSITORY", "REF")

    def answer(self, options: Mapping[str, Any]) -> CommandAnswer:
        with self.open_ports() as ports:
            created = self.create_tasks(ports, options)
        rows = [
            (task.id, event.repo, event.ref)
            for task in created
            for event in TaskRequest.of(task.request).events
        ]
        return CommandAnswer(
            document={"tasks": [task_document(task) for task in created]}, rows=rows
        )
