"""`partita artifacts status|move`: where the bytes of artifacts are."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from apps.executions.services.artifact_moves import move_artifacts, storage_parts
from apps.operations.api import ExitCode, VerbCommand, print_json, print_table, printable


class Command(VerbCommand):
    help = "Say where the bytes of artifacts are, and move them to where ARTIFACT_STORAGE says."
    environment = (
        "ARTIFACT_STORAGE (store): where the bytes of new artifacts go: store, disk, "
        "file:///folder or s3://bucket/prefix?region=…&endpoint=…; AWS_ACCESS_KEY_ID, "
        "AWS_SECRET_ACCESS_KEY and AWS's other variables"
    )
    examples = """\
  partita artifacts status
  ARTIFACT_STORAGE=s3://reports/partita partita artifacts move   beside running processes"""

    def add_arguments(self, parser: Any) -> None:
        verbs = self.add_verbs(parser)
        self.add_verb(verbs, "status", show_status, "count artifacts and bytes of each storage")
        self.add_verb(
            verbs,
            "move",
            move,
            "move all artifacts to the configured storage; may be stopped and run again",
        )


def show_status(options: Mapping[str, Any]) -> int:
    parts = storage_parts()
    if options["output"] == "json":
        print_json({"storages": [asdict(part) for part in parts]})
        return ExitCode.OK
    print_table(
        ("STORAGE", "ARTIFACTS", "BYTES", "TO REMOVE"),
        [(each.storage, str(each.artifacts), str(each.size), str(each.removals)) for each in parts],
    )
    return ExitCode.OK


def move(options: Mapping[str, Any]) -> int:
    moved, lost, size = 0, [], 0
    for each in move_artifacts():
        if each.is_lost:
            lost.append(each.artifact)
            sys.stderr.write(f"{printable(each.artifact)}: its storage no longer has it\n")
            continue
        moved, size = moved + 1, size + each.size
    if options["output"] == "json":
        print_json({"moved": moved, "bytes": size, "lost": lost})
    else:
        sys.stdout.write(f"moved {moved} artifacts, {size} bytes\n")
    return ExitCode.ERROR if lost else ExitCode.OK
