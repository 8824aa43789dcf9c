"""`partita sync blame KEY`: the origin of a live key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser

from sync_stack.orchestrator.management.base import CommandAnswer, SyncVerb
from sync_stack.orchestrator.server.documents import target_document
from sync_stack.orchestrator.services.key_origins import KeyOrigin, origins
from sync_stack.repositories import Signature


class BlameVerb(SyncVerb):
    name = "blame"
    text = "show which commit wrote a key"
    help = (
        "Show where a key in a datasource comes from: the commit that last changed it and its "
        "author (read from Git), the task that wrote it and the delivery that asked for it. "
        "LIVE is in_sync, changed (outside Git), missing or unknown. Values are not shown."
    )
    examples = """\
  partita sync blame db.host
  partita sync blame db.host --rule shop --env production -o json"""
    columns = ("DESTINATION", "LIVE", "COMMIT", "AUTHOR", "WRITTEN", "FILE", "TASK", "DELIVERY")
    filters = ("rule", "repo", "env", "datasource")

    def add_more(self, parser: CommandParser) -> None:
        parser.add_argument("key", help="as the datasource has it, such as db.host")

    def answer(self, options: Mapping[str, Any]) -> CommandAnswer:
        with self.open_ports() as ports:
            found = origins(ports, options["key"], self.column_filters(options))
        if not found:
            raise CommandError(
                f"no target holds {options['key']!r}: it was written outside Git or released, or "
                "the filters exclude its target (partita sync status lists targets)"
            )
        problems = [
            f"{each.target.destination}: cannot be read from Git: {each.problem}"
            for each in found
            if each.problem
        ]
        return CommandAnswer(
            document={"keys": [_document(each) for each in found]},
            rows=[_row(each) for each in found],
            problems=problems,
        )


def _document(origin: KeyOrigin) -> dict[str, object]:
    """Return the target record with the key."""
    made = target_document(origin.target) | {
        "key": origin.key,
        "file": origin.entry.file,
        "secret": origin.entry.secret,
        "live": origin.live,
        "task_id": origin.task_id,
    }
    facts = {
        "line": origin.line,
        "delivery_id": origin.delivery_id,
        "healed_by": origin.healed_by,
        "applied": origin.applied and _signature_document(origin.applied),
        "changed": origin.changed and _signature_document(origin.changed),
        "problem": origin.problem,
    }
    return made | {name: value for name, value in facts.items() if value}


def _signature_document(signature: Signature) -> dict[str, str]:
    return {
        "commit": signature.commit,
        "author": signature.name,
        "email": signature.email,
        "at": signature.at,
        "subject": signature.subject,
    }


def _row(origin: KeyOrigin) -> tuple[Any, ...]:
    """Return the row with the commit that changed the line, else the one that was applied."""
    signed = origin.changed or origin.applied
    commit = signed.commit if signed else origin.target.commit
    place = f"{origin.entry.file}:{origin.line}" if origin.line else origin.entry.file
    return (
        origin.target.destination,
        origin.live,
        commit[:12],
        f"{signed.name} <{signed.email}>" if signed else "-",
        signed.at if signed else "-",
        place,
        origin.task_id,
        origin.delivery_id or "-",
    )
