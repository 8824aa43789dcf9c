"""`partita sync orphans [--release|--purge]`: targets that no rule produces any more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser

from sync_stack.orchestrator.management.base import CommandAnswer, SyncVerb
from sync_stack.orchestrator.models import LedgerTarget, Task
from sync_stack.orchestrator.server.documents import target_document, task_document
from sync_stack.orchestrator.services.execution.attempt import Ports
from sync_stack.orchestrator.services.operator_requests import (
    orphans,
    release_orphan,
    run_here,
    trigger_purge,
)


class OrphansVerb(SyncVerb):
    name = "orphans"
    text = "list, release or purge targets that no rule produces any more"
    help = (
        "List targets that no rule produces any more. --release forgets them, and what they wrote "
        "stays; --purge deletes what they own, except protected keys and keys with the marker of "
        "another owner, and then forgets them."
    )
    examples = """\
  partita sync orphans
  partita sync orphans --release --rule old-shop
  partita sync orphans --purge --rule old-shop --env staging -o json"""
    columns = ("RULE", "REPOSITORY", "ENV", "DESTINATION", "KEYS", "DONE")
    filters = ("rule", "repo", "env")

    def add_more(self, parser: CommandParser) -> None:
        act = parser.add_mutually_exclusive_group()
        act.add_argument("--release", action="store_true", help="forget them")
        act.add_argument("--purge", action="store_true", help="delete what they own")

    def answer(self, options: Mapping[str, Any]) -> CommandAnswer:
        wanted = self.column_filters(options)
        with self.open_ports() as ports:
            done = [
                (target, *_act(target, ports, options))
                for target in orphans(ports)
                if all(getattr(target, name) == value for name, value in wanted.items())
            ]
        failed = [t.destination for t, word, _ in done if word in ("failed", "busy")]
        return CommandAnswer(
            document={"orphans": [_document(*each) for each in done]},
            rows=[(t.rule_id, t.repo, t.env, t.destination, t.keys, word) for t, word, _ in done],
            failure=f"not done: {', '.join(failed)}" if failed else "",
        )


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
