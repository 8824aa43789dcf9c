"""The base of the sync's commands: help, `-o json`, tables, filters, exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, ClassVar, Final

import yaml
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as StoreError
from django.db import ProgrammingError

from kernel.commands import HIDDEN_OPTIONS, OUTPUT_HELP, OUTPUTS, ExitCode, HelpWords, help_words
from sync_stack.configuration.process_configuration import Configuration
from sync_stack.configuration.secrets import SecretError
from sync_stack.configuration.startup import refusing
from sync_stack.core.bundle.diagnostics import names_with_hint
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.sink import SinkError
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.server.ports import open_bundle, ports_of
from sync_stack.orchestrator.services.execution.attempt import Ports
from sync_stack.orchestrator.services.operator_requests import NothingToSync
from sync_stack.orchestrator.services.task_creation import TooManyTasks
from sync_stack.repositories import GitError

EXIT_CODES: Final = (
    "0 success, 1 it cannot be done, or some of it failed, 2 usage, 3 not found, "
    "6 unavailable, 78 wrong configuration"
)
_FILTERS: Final = {
    "rule": "only targets of this rule",
    "repo": "owner/name",
    "env": "only of this environment",
    "datasource": "only of this datasource",
    "ref": "such as refs/heads/main",
}


class SyncCommand(BaseCommand):
    """A command that prints a table, or with `-o json` a document."""

    requires_system_checks: Any = ()
    suppressed_base_arguments = HIDDEN_OPTIONS
    examples: ClassVar[Sequence[str]] = ()

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        end = sync_help(subcommand, EXIT_CODES, self.examples)
        return super().create_parser(prog_name, subcommand, **end, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        add_output(parser)
        self.add_more(parser)

    def add_more(self, parser: CommandParser) -> None:
        """Add the arguments of the command itself; none by default."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Execute the command; a store that cannot be used gives one sentence and exit code 6."""
        try:
            return super().execute(*args, **options)
        except ProgrammingError:
            raise CommandError(
                "the store has no tables of the sync: run partita migrate",
                returncode=ExitCode.UNAVAILABLE,
            ) from None
        except StoreError as error:
            raise CommandError(
                f"the store cannot be used ({type(error).__name__}): check DB_DRIVER and the "
                "variables of its store",
                returncode=ExitCode.UNAVAILABLE,
            ) from None

    def bundle(self) -> Configuration:
        """Open the bundle; an invalid one ends the command with exit code 78."""
        with refusing():
            return open_bundle()

    @contextmanager
    def open_configuration(self) -> Iterator[Configuration]:
        """Yield the bundle and close it; errors of the work with it end the command."""
        configuration = self.bundle()
        try:
            yield configuration
        except (NothingToSync, TooManyTasks, GitError, SinkError, SecretError) as error:
            raise CommandError(str(error) or "too many tasks are already waiting") from error
        finally:
            configuration.close()

    def check_rule(self, name: str) -> None:
        """Refuse a `--rule` that neither the store nor the bundle knows."""
        if not name or ledgers.is_rule_known(name):
            return
        with self.open_configuration() as configuration:
            bundle = configuration.bundle
        rules = {rule.name for rule in bundle.rules}
        rules |= {rule.name for rule in bundle.disabled_rules}
        if name not in rules:
            names = known_names(name, rules | ledgers.rules_with_targets())
            raise CommandError(f"no rule {name!r} {names}", returncode=ExitCode.NOT_FOUND)

    def ports(self, configuration: Configuration) -> Ports:
        """Return ports for commands that run tasks themselves, without publishing them."""
        return ports_of(configuration, lambda _task_ids: None)

    def show(
        self,
        options: Mapping[str, Any],
        document: object,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
    ) -> None:
        if options["output"] in ("json", "yaml"):
            self.stdout.write(write_document(document, options["output"]))
            return
        table = [tuple(columns), *[tuple(map(str, row)) for row in rows]]
        widths = [max(len(row[number]) for row in table) for number in range(len(columns))]
        for row in table:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self.stdout.write("  ".join(cells).rstrip())


def add_output(parser: CommandParser) -> None:
    parser.add_argument("-o", "--output", choices=OUTPUTS, default=OUTPUTS[0], help=OUTPUT_HELP)


def write_document(document: object, output: str) -> str:
    """Return a document as JSON, or as YAML where that is the `output`."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if output == "json":
        return text
    return yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True)


def add_filters(parser: CommandParser, *names: str) -> None:
    for name in names:
        parser.add_argument(f"--{name}", default="", help=_FILTERS[name])


def column_filters(options: Mapping[str, Any], **columns: str) -> dict[str, str]:
    """Return column → text for the options that are set; `columns` is option → column."""
    return {column: options[name] for name, column in columns.items() if options[name]}


def rule_of(bundle: Bundle, name: str) -> Rule:
    """Return a rule by name. Raises CommandError with the known rules."""
    rule = bundle.find_rule(name)
    if rule is None:
        names = known_names(name, (each.name for each in bundle.rules))
        raise CommandError(f"no rule {name!r} {names}", returncode=ExitCode.NOT_FOUND)
    return rule


def check_choice(what: str, name: str, names: Iterable[str]) -> None:
    """Refuse a filter with a name that no row can have, with exit code 2 and the known ones."""
    if name and name not in (known := set(names)):
        words = f"no {what} {name!r} {known_names(name, known)}"
        raise CommandError(words, returncode=ExitCode.USAGE)


def known_names(name: str, names: Iterable[str]) -> str:
    """Return the known names, and the one that was probably meant: SUCCEEDED for SUCCESS."""
    options = sorted(set(names))
    return names_with_hint(options, next(iter(get_close_matches(name, options, n=1)), ""))


def sync_help(subcommand: str, exit_codes: str, examples: Sequence[str]) -> HelpWords:
    """Return the arguments of a command's parser; `examples` are what follows its name."""
    lines = "\n".join(f"  partita {subcommand} {line}".rstrip() for line in examples)
    return help_words(examples=lines, exit_codes=f"exit codes: {exit_codes}")
