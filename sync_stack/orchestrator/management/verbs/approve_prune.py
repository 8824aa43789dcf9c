"""`partita sync approve-prune TASK_ID`: allow a stopped prune, once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser

from sync_stack.orchestrator.domain.task_documents import TaskRequest
from sync_stack.orchestrator.management.base import CommandAnswer, SyncVerb
from sync_stack.orchestrator.server.documents import task_document
from sync_stack.orchestrator.services.operator_requests import approve_prune


class ApprovePruneVerb(SyncVerb):
    name = "approve-prune"
    text = "approve the deletion of the keys that a guard kept"
    help = (
        "Repeat a task that ended prune_guard, once, with the guard waived for exactly the keys "
        "that it listed (partita sync history --state failed)."
    )
    examples = "  partita sync approve-prune 0198f0c2-7d1e-7c41-9a57-2f5d0c1e8b11"
    columns = ("TASK", "KEY")

    def add_more(self, parser: CommandParser) -> None:
        parser.add_argument("task_id")

    def answer(self, options: Mapping[str, Any]) -> CommandAnswer:
        with self.open_configuration() as configuration:
            task = approve_prune(configuration.bundle, options["task_id"])
        approved = TaskRequest.of(task.request).approved
        keys = sorted({key for names in approved.values() for key in names})
        document = task_document(task) | {"keys": keys}
        return CommandAnswer(document=document, rows=[(task.id, key) for key in keys])
