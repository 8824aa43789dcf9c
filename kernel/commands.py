"""What all commands share, of both halves: exit codes and forms of output (docs/commands.md)."""

from __future__ import annotations

import argparse
import enum
from typing import Final, TypedDict


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


class HelpWords(TypedDict):
    """Arguments of a parser whose help ends with lines as they are written."""

    epilog: str
    formatter_class: type[argparse.HelpFormatter]


def help_words(*, examples: str, exit_codes: str, environment: str = "") -> HelpWords:
    """Return the arguments of a parser whose help ends with examples and exit codes, as written."""
    variables = f"environment: {environment}\n\n" if environment else ""
    return {
        "epilog": f"{variables}examples:\n{examples.rstrip()}\n\n{exit_codes}",
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    }
