"""`manage.py sync_trigger`: bring what a rule tracks up to date now."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from sync_stack.configuration.secrets import SecretError
from sync_stack.orchestrator.management.base import SyncCommand
from sync_stack.orchestrator.services.create import TooManyTasks
from sync_stack.orchestrator.services.manual import NothingToSync, remotes, trigger_manual
from sync_stack.repositories import GitError


class Command(SyncCommand):
    help = (
        "Make a task for the head of each ref of a rule's units, or of its repositories. "
        "Example: manage.py sync_trigger --rule shop --repo acme/shop --env production"
    )

    def add_more(self, parser: CommandParser) -> None:
        parser.add_argument("--rule", required=True)
        parser.add_argument("--repo", default="", help="owner/name; else all that are known")
        parser.add_argument("--env", default="", help="only refs of this environment")

    def handle(self, **options: Any) -> None:
        configuration = self.bundle()
        try:
            made = trigger_manual(
                configuration.bundle,
                options["rule"],
                remotes(self.ports(configuration)),
                repo=options["repo"],
                env=options["env"],
            )
        except (NothingToSync, TooManyTasks, GitError, SecretError) as error:
            raise CommandError(str(error) or type(error).__name__) from error
        finally:
            configuration.close()
        rows = [(task.id, event["repo"], event["ref"]) for task in made for event in _events(task)]
        document = {"tasks": [task.id for task in made]}
        self.show(options, document, ("TASK", "REPOSITORY", "REF"), rows)


def _events(task: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = task.request["events"]
    return found
