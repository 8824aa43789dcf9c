"""What the commands of the sync share: `-o json`, tables, exit codes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from sync_stack.configuration.opened import Configuration
from sync_stack.configuration.startup import refusing
from sync_stack.orchestrator.execution.attempt import Ports
from sync_stack.orchestrator.serving.ports import open_bundle, ports_of


class SyncCommand(BaseCommand):
    """A command that prints a table, or with `-o json` a document."""

    requires_system_checks: Any = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
        self.add_more(parser)

    def add_more(self, parser: CommandParser) -> None:
        """Arguments of the command itself."""

    def bundle(self) -> Configuration:
        """The bundle in use; a wrong one ends the command with exit code 78."""
        with refusing():
            return open_bundle()

    def ports(self, configuration: Configuration) -> Ports:
        """For commands that work themselves; nobody is told of their tasks."""
        return ports_of(configuration, lambda _task_ids: None)

    def show(
        self,
        options: dict[str, Any],
        document: Any,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
    ) -> None:
        if options["output"] == "json":
            self.stdout.write(json.dumps(document, indent=2, ensure_ascii=False))
            return
        table = [tuple(columns), *[tuple(map(str, row)) for row in rows]]
        widths = [max(len(row[number]) for row in table) for number in range(len(columns))]
        for row in table:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self.stdout.write("  ".join(cells).rstrip())
