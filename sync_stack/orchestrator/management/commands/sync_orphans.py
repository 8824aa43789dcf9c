"""`manage.py sync_orphans [--release|--purge]`: units that no rule yields any more."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from sync_stack.configuration.secrets import SecretError
from sync_stack.core.sink import SinkError
from sync_stack.orchestrator.management.base import SyncCommand, add_filters
from sync_stack.orchestrator.models import LedgerUnit, Task
from sync_stack.orchestrator.server.documents import task_document, unit_document
from sync_stack.orchestrator.services.create import TooManyTasks
from sync_stack.orchestrator.services.execution.attempt import Ports
from sync_stack.orchestrator.services.manual import (
    carry_out,
    orphans,
    release_orphan,
    trigger_purge,
)

_COLUMNS = ("RULE", "REPOSITORY", "ENV", "DESTINATION", "KEYS", "DONE")


class Command(SyncCommand):
    help = (
        "List units that no rule yields any more. --release forgets them, and what they wrote "
        "stays; --purge deletes what they own, but for protected keys and those that bear "
        "another's mark, and then forgets them."
    )
    examples = ("", "--release --rule old-shop", "--purge --rule old-shop --env staging -o json")

    def add_more(self, parser: CommandParser) -> None:
        act = parser.add_mutually_exclusive_group()
        act.add_argument("--release", action="store_true", help="forget them")
        act.add_argument("--purge", action="store_true", help="delete what they own")
        add_filters(parser, "rule", "repo", "env")

    def handle(self, **options: Any) -> None:
        self.check_rule(options["rule"])
        configuration = self.bundle()
        try:
            ports = self.ports(configuration)
            found = [unit for unit in orphans(ports) if _is_meant(unit, options)]
            done = [(unit, *_act(unit, ports, options)) for unit in found]
        except (SinkError, SecretError, TooManyTasks) as error:
            raise CommandError(str(error) or "too many tasks wait already") from error
        finally:
            configuration.close()
        document = {"orphans": [_document(unit, word, task) for unit, word, task in done]}
        rows = [(u.rule_id, u.repo, u.env, u.destination, u.keys, word) for u, word, _task in done]
        self.show(options, document, _COLUMNS, rows)
        if failed := [unit.destination for unit, word, _task in done if word in ("failed", "busy")]:
            raise CommandError(f"not done: {', '.join(failed)}")


def _is_meant(unit: LedgerUnit, options: dict[str, Any]) -> bool:
    known = {"rule": unit.rule_id, "repo": unit.repo, "env": unit.env}
    return all(options[name] in ("", value) for name, value in known.items())


def _act(unit: LedgerUnit, ports: Ports, options: dict[str, Any]) -> tuple[str, Task | None]:
    """`kept`, `released`, `purged`, `failed`, or `busy` when a task is at work there."""
    if options["release"]:
        return ("released" if release_orphan(unit) else "busy"), None
    if not options["purge"]:
        return "kept", None
    task = carry_out(trigger_purge(ports.bundle(), unit), ports)
    return ("purged" if task.state == "SUCCEEDED" else "failed"), task


def _document(unit: LedgerUnit, word: str, task: Task | None) -> dict[str, Any]:
    """The target record of the unit; `released` as it always was."""
    made = unit_document(unit) | {"done": word, "released": word == "released"}
    return made | ({"task": task_document(task)} if task else {})
