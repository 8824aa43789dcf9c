"""The base of the sync's commands: help, `-o json`, tables, filters, exit codes."""

from __future__ import annotations

import json
from argparse import RawDescriptionHelpFormatter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, ClassVar, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as StoreError
from django.db import ProgrammingError

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

EXIT_ARGUMENTS: Final = 2
EXIT_STORE: Final = 69
EXIT_CODES: Final = (
    "0 done; 1 it cannot be done, or some of it failed; 2 wrong arguments; "
    "69 the store cannot be used; 78 the configuration is wrong."
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
    examples: ClassVar[Sequence[str]] = ()

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        end = help_epilog(subcommand, EXIT_CODES, self.examples)
        return super().create_parser(prog_name, subcommand, **end, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
        self.add_more(parser)

    def add_more(self, parser: CommandParser) -> None:
        """Arguments of the command itself."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Execute the command; a store that cannot be used gives one sentence and exit code 69."""
        try:
            return super().execute(*args, **options)
        except ProgrammingError:
            raise CommandError(
                "the store has no tables of the sync: run manage.py migrate", returncode=EXIT_STORE
            ) from None
        except StoreError as error:
            raise CommandError(
                f"the store cannot be used ({type(error).__name__}): check DB_DRIVER and the "
                "variables of its store",
                returncode=EXIT_STORE,
            ) from None

    def bundle(self) -> Configuration:
        """Open the bundle; an invalid one ends the command with exit code 78."""
        with refusing():
            return open_bundle()

    @contextmanager
    def opened(self) -> Iterator[Configuration]:
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
        with self.opened() as configuration:
            bundle = configuration.bundle
        rules = {rule.name for rule in bundle.rules}
        rules |= {rule.name for rule in bundle.disabled_rules}
        if name not in rules:
            names = known_names(name, rules | ledgers.rules_with_targets())
            raise CommandError(f"no rule {name!r} {names}", returncode=EXIT_ARGUMENTS)

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
        if options["output"] == "json":
            self.stdout.write(json.dumps(document, indent=2, ensure_ascii=False))
            return
        table = [tuple(columns), *[tuple(map(str, row)) for row in rows]]
        widths = [max(len(row[number]) for row in table) for number in range(len(columns))]
        for row in table:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self.stdout.write("  ".join(cells).rstrip())


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
        raise CommandError(f"no rule {name!r} {names}")
    return rule


def known_names(name: str, names: Iterable[str]) -> str:
    """Return the known names, and the one that was probably meant: SUCCEEDED for SUCCESS."""
    options = sorted(set(names))
    return names_with_hint(options, next(iter(get_close_matches(name, options, n=1)), ""))


def help_epilog(subcommand: str, exit_codes: str, examples: Sequence[str]) -> dict[str, Any]:
    """Return keyword arguments for the command's parser."""
    lines = "\n".join(f"  manage.py {subcommand} {line}".rstrip() for line in examples)
    return {
        "epilog": f"Exit codes: {exit_codes}\n\nExamples:\n{lines}",
        "formatter_class": RawDescriptionHelpFormatter,
    }
