"""What all commands share, of both halves: exit codes and forms of output (docs/commands.md)."""

from __future__ import annotations

import argparse
import enum
from typing import Any, ClassVar, Final


class ExitCode(enum.IntEnum):
    """What the end of a command says to a script."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    FORBIDDEN = 4
    CONFLICT = 5
    UNAVAILABLE = 6
    RUN_FAILED = 10
    RUN_ERROR = 11
    RUN_CANCELED = 12
    TIMEOUT = 13
    STILL_RUNNING = 14
    ADDRESS_IN_USE = 69  # of a process that serves: EX_UNAVAILABLE of sysexits
    CONFIGURATION = 78  # EX_CONFIG: a restart does not help before somebody mends it
    INTERRUPTED = 130


EXIT_CODES_HELP: Final = (
    "exit codes: 0 success, 1 error, 2 usage, 3 not found, 4 not allowed, 5 conflict,\n"
    "  6 unavailable, 78 wrong configuration; a watched run: 10 failed (a step),\n"
    "  11 failed (infrastructure), 12 canceled, 13 time out, 14 still running"
)

PROCESS_EXIT_CODES: Final = (
    "exit codes: 0 stopped, 69 an address or a folder is in use or a server is away,\n"
    "  78 wrong configuration"
)
OUTPUTS: Final = ("text", "table", "json", "yaml")
OUTPUT_HELP: Final = "text or table for people (text is the default), json or yaml for programs"
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


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=OUTPUTS, default=OUTPUTS[0], help=OUTPUT_HELP)
