"""`partita sync_trigger`: sync what a rule tracks now."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from sync_stack.orchestrator.domain.task_documents import TaskRequest
from sync_stack.orchestrator.management.base import SyncCommand, add_filters, rule_of
from sync_stack.orchestrator.server.documents import task_document
from sync_stack.orchestrator.services.operator_requests import (
    trigger_manual,
)


class Command(SyncCommand):
    help = (
        "Create a task for the head of each ref of a rule's targets, or of its repositories. The "
        "orchestrator runs it within seconds (partita sync_history shows it)."
    )
    examples = ("--rule shop", "--rule shop --repo acme/shop --env production")

    def add_more(self, parser: CommandParser) -> None:
        parser.add_argument("--rule", required=True)
        add_filters(parser, "repo", "env")

    def handle(self, **options: Any) -> None:
        with self.open_configuration() as configuration:
            rule = rule_of(configuration.bundle, options["rule"])
            ports = self.ports(configuration)
            created = trigger_manual(ports, rule, repo=options["repo"], env=options["env"])
        rows = [
            (task.id, event.repo, event.ref)
            for task in created
            for event in TaskRequest.of(task.request).events
        ]
        document = {"tasks": [task_document(task) for task in created]}
        self.show(options, document, ("TASK", "REPOSITORY", "REF"), rows)
