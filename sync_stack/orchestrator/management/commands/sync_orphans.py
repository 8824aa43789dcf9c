"""`partita sync_orphans [--release|--purge]`: targets that no rule produces any more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser

from sync_stack.orchestrator.management.base import SyncCommand, add_filters
from sync_stack.orchestrator.models import LedgerTarget, Task
from sync_stack.orchestrator.server.documents import target_document, task_document
from sync_stack.orchestrator.services.execution.attempt import Ports
from sync_stack.orchestrator.services.operator_requests import (
    orphans,
    release_orphan,
    run_here,
    trigger_purge,
)

_COLUMNS = ("RULE", "REPOSITORY", "ENV", "DESTINATION", "KEYS", "DONE")


class Command(SyncCommand):
    help = (
        "List targets that no rule produces any more. --release forgets them, and what they wrote "
        "stays; --purge deletes what they own, except protected keys and keys with the marker of "
        "another owner, and then forgets them."
    )
    examples = ("", "--release --rule old-shop", "--purge --rule old-shop --env staging -o json")

    def add_more(self, parser: CommandParser) -> None:
        act = parser.add_mutually_exclusive_group()
        act.add_argument("--release", action="store_true", help="forget them")
        act.add_argument("--purge", action="store_true", help="delete what they own")
        add_filters(parser, "rule", "repo", "env")

    def handle(self, **options: Any) -> None:
        self.check_rule(options["rule"])
        filters = {"rule_id": options["rule"], "repo": options["repo"], "env": options["env"]}
        with self.open_configuration() as configuration:
            ports = self.ports(configuration)
            done = [
                (target, *_act(target, ports, options))
                for target in orphans(ports)
                if all(value in ("", getattr(target, name)) for name, value in filters.items())
            ]
        document = {"orphans": [_document(*each) for each in done]}
        rows = [(t.rule_id, t.repo, t.env, t.destination, t.keys, word) for t, word, _ in done]
        self.show(options, document, _COLUMNS, rows)
        if failed := [t.destination for t, word, _ in done if word in ("failed", "busy")]:
            raise CommandError(f"not done: {', '.join(failed)}")


def _act(target: LedgerTarget, ports: Ports, options: Mapping[str, Any]) -> tuple[str, Task | None]:
    """Return `kept`, `released`, `purged`, `failed`, or `busy`, and the task."""
    if options["release"]:
        return ("released" if release_orphan(target) else "busy"), None
    if not options["purge"]:
        return "kept", None
    task = run_here(trigger_purge(ports.bundle(), target), ports)
    return ("purged" if task.state == "SUCCEEDED" else "failed"), task


def _document(target: LedgerTarget, word: str, task: Task | None) -> dict[str, object]:
    """Return the target record with what was done."""
    made = target_document(target) | {"done": word, "released": word == "released"}
    return made | ({"task": task_document(task)} if task else {})
