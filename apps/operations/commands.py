"""The base of Partita's commands: verbs with examples, `-o json`, documented exit codes.

Data goes to stdout, progress and errors to stderr. Colours follow `NO_COLOR` and the terminal.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from django.apps import apps
from django.core.management.base import BaseCommand
from django.db import DatabaseError
from django.utils.module_loading import import_string
from rich.cells import cell_len

from apps.operations import conf
from kernel.commands import OUTPUTS, CommandHelp, ExitCode, add_output
from kernel.errors import PlatformError
from kernel.exit_codes import BY_HTTP_STATUS, BY_PROBLEM_CODE
from kernel.problems import PROBLEMS
from partita_client.command.output import FORMATS, ListColumn, show_list
from partita_client.standard_streams import end_output, is_output_failure
from readers.diagnostics import Diagnostic

_COLOUR = re.compile("\x1b\\[[0-9;:]*m")
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")
LIST_OUTPUTS: Final = FORMATS  # of a list, in both halves of the command
CommandOptions = Mapping[str, Any]  # by the names that the parser of the verb gives them
Verb = Callable[[CommandOptions], int]


class PlatformCommand(CommandHelp, BaseCommand):
    """A command that returns an exit code from `execute_command`.

    A PlatformError is shown in one line and becomes the exit code of its problem status.
    """

    def execute_command(self, options: CommandOptions) -> int:
        raise NotImplementedError

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            code = self._execute_as_asked(options)
            sys.stdout.flush()
        except PlatformError as error:
            code = report_error(error)
        except DatabaseError as error:
            code = report_error(store_unusable(error))
        except KeyboardInterrupt:
            code = 130
        except OSError as error:
            if not is_output_failure(error):
                raise
            code = end_output(error)
        sys.exit(code)

    def _execute_as_asked(self, options: CommandOptions) -> int:
        if options.get("output") == "yaml":  # commands know programs and people
            with _as_yaml():
                return self.execute_command({**options, "output": "json"})
        return self.execute_command(options)


class VerbCommand(PlatformCommand):
    """`partita <noun> <verb> …`: a subclass names its verbs and adds their arguments.

    Each verb takes the parsed options and returns an exit code.
    """

    def add_verbs(self, parser: argparse.ArgumentParser) -> Any:
        """Return what takes the verbs; a command line without one lists them and ends with 2."""
        verbs = parser.add_subparsers(metavar="VERB")

        def list_verbs(_options: CommandOptions) -> int:
            parser.print_usage(sys.stderr)
            sys.stderr.write(f"{parser.prog}: name a verb: {', '.join(verbs.choices)}\n")
            return ExitCode.USAGE

        parser.set_defaults(verb=list_verbs)
        return verbs

    def add_verb(
        self, verbs: Any, name: str, verb: Verb, text: str, *, outputs: Sequence[str] = OUTPUTS
    ) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = verbs.add_parser(name, help=text, description=text)
        parser.set_defaults(verb=verb)
        add_output(parser, outputs)
        return parser

    def add_further_verbs(self, noun: str, verbs: Any) -> None:
        """Add the verbs of this noun that other apps name (`further_verbs` of their configs).

        It maps `noun verb` to the path of what adds it: for a verb that needs an app above that of
        the noun's command.
        """
        for config in apps.get_app_configs():
            for name, path in getattr(config, "further_verbs", {}).items():
                if name.split()[0] == noun:
                    import_string(path)(self, verbs)

    def execute_command(self, options: CommandOptions) -> int:
        verb: Verb = options["verb"]
        return verb(options)


_NO_STORE = "start `up` once with this DATA_DIR, or name the store and run `partita migrate`"


def store_unusable(error: Exception, advice: str = _NO_STORE) -> PlatformError:
    """The store is away or was never prepared, in words; the driver's own words come last."""
    cause = str(error) or str(error.__cause__ or "no answer")
    words = cause.splitlines()[0].split(" (configured timeouts")[0][:200]
    return PlatformError(
        f"the primary store is not usable (DB_DRIVER={conf.db_driver()}): {advice}. "
        f"The store says: {words}",
        code="datastore_unavailable",
    )


def report_error(error: PlatformError) -> ExitCode:
    """Print one line on stderr and one for each field or place at fault; return the exit code."""
    from rich.console import Console  # slow to import: most commands end without an error

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]error[/] {error.problem_code}: ", end="")
    console.print(error.detail, markup=False)
    for entry in error.errors:
        place = ":".join(str(part) for part in (entry.file, entry.line, entry.column) if part)
        is_said = entry.detail in error.detail and (place or entry.pointer[1:]) in error.detail
        if is_said and len(error.errors) == 1:
            continue
        why = "" if entry.detail == error.detail else f": {entry.detail}"
        console.print(f"  {place or entry.pointer}{why}", markup=False)
    code = error.problem_code
    return BY_PROBLEM_CODE.get(code) or BY_HTTP_STATUS.get(PROBLEMS[code], ExitCode.ERROR)


_yaml: Final = threading.local()


@contextmanager
def _as_yaml() -> Iterator[None]:
    _yaml.is_wanted = True
    try:
        yield
    finally:
        _yaml.is_wanted = False


def print_json(document: Any) -> None:
    """Print a document for programs: as JSON, or as YAML under `-o yaml`."""
    if getattr(_yaml, "is_wanted", False):
        import yaml

        yaml.safe_dump(document, sys.stdout, sort_keys=False, allow_unicode=True)
        return
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table as wide as its content: a narrow terminal wraps it, an id is never cut."""
    heads, *lines = align_columns([columns, *rows])
    sys.stdout.write(f"\x1b[1m{heads}\x1b[0m\n" if sys.stdout.isatty() else f"{heads}\n")
    sys.stdout.writelines(f"{line}\n" for line in lines)


def print_list(
    name: str, documents: Sequence[Any], columns: Sequence[ListColumn], output: str, *, key: str
) -> None:
    """Print a list as the client does: `name` is its key in the document, `key` names an entry."""
    if output == "json":
        print_json({name: list(documents)})
    else:
        show_list(name, documents, columns, output, key=key)


def report_diagnostics(found: Mapping[str, Sequence[Diagnostic]], options: CommandOptions) -> int:
    """Print the diagnostics of suites by their names; return the exit code.

    It is 1 where one is an error, with `--strict` also where one is a warning.
    """
    if options["output"] == "json":
        listed = [
            {"id": name, "diagnostics": [each.as_dict() for each in own]}
            for name, own in found.items()
        ]
        print_json({"suites": listed})
    else:
        for name, own in found.items():
            _print_diagnostics(name, own)
    severities = {each.severity for own in found.values() for each in own}
    failed = "error" in severities or (options["strict"] and severities)
    return ExitCode.ERROR if failed else ExitCode.OK


def _print_diagnostics(name: str, diagnostics: Sequence[Diagnostic]) -> None:
    from rich.console import Console  # slow to import

    console = Console(highlight=False, soft_wrap=True)
    errors = sum(each.severity == "error" for each in diagnostics)
    mark = "[red]✗[/]" if errors else "[yellow]![/]" if diagnostics else "[green]✓[/]"
    warnings = len(diagnostics) - errors
    counts = ", ".join(
        f"{number} {noun}{'' if number == 1 else 's'}"
        for number, noun in ((errors, "error"), (warnings, "warning"))
    )
    console.print(f"{mark} {escape(name)}: {counts if diagnostics else 'nothing to report'}")
    for each in diagnostics:
        console.print(f"    {each.severity:<7} {escape(str(each))}")


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as printable lines whose columns are as wide as their widest cell."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]


def confirm(question: str) -> bool:
    """Ask a person on the terminal; anything but yes is no."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def escape(text: str) -> str:
    """Text from outside as rich shows it literally, without terminal control characters."""
    return printable(text).replace("[", r"\[")


def printable(text: str) -> str:
    """Text that cannot drive a terminal: colour codes dropped, other control characters as `?`."""
    return _CONTROL.sub("?", _COLOUR.sub("", text))
