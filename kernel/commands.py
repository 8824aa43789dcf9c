"""What all commands share, of both halves: exit codes and forms of output (docs/commands.md)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from kernel.exit_codes import EXIT_CODES_HELP, ExitCode

__all__ = ["EXIT_CODES_HELP", "OUTPUTS", "WIDE_OUTPUTS", "CommandHelp", "ExitCode", "add_output"]

PROCESS_EXIT_CODES: Final = (
    "exit codes: 0 stopped, 69 an address or a folder is in use or a server is away,\n"
    "  78 wrong configuration"
)
OUTPUTS: Final = ("text", "table", "json", "yaml")
WIDE_OUTPUTS: Final = ("text", "table", "wide", "json", "yaml")  # of a table with more columns
OUTPUT_HELP: Final = "text or table for people (text is the default), json or yaml for programs"
_WIDE_HELP: Final = "; wide: more columns, and times"
_LIST_HELP: Final = "; name: the ids; ndjson: one entry per line"
# options of Django that say nothing to those who use a command; they work all the same
HIDDEN_OPTIONS: Final[set[str]] = {
    *("--version", "--verbosity", "--settings", "--pythonpath", "--traceback"),
    *("--no-color", "--force-color", "--skip-checks"),
}


class CommandHelp:
    """Ends the help of a Django command with its variables, examples and exit codes, as written.

    It stands before BaseCommand among the bases of a command.
    """

    environment: ClassVar[str] = ""
    examples: ClassVar[str] = ""
    exit_codes: ClassVar[str] = EXIT_CODES_HELP
    suppressed_base_arguments = HIDDEN_OPTIONS
    requires_system_checks: Any = ()

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        variables = f"environment: {self.environment}\n\n" if self.environment else ""
        return super().create_parser(  # type: ignore[misc] # of Django, which is not imported here
            prog_name,
            subcommand,
            epilog=f"{variables}examples:\n{self.examples.rstrip()}\n\n{self.exit_codes}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **kwargs,
        )


def add_output(parser: argparse.ArgumentParser, outputs: Sequence[str] = OUTPUTS) -> None:
    words = OUTPUT_HELP + (_WIDE_HELP if "wide" in outputs else "")
    words += _LIST_HELP if "ndjson" in outputs else ""
    parser.add_argument("-o", "--output", choices=outputs, default=outputs[0], help=words)
