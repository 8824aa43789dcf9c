"""The base of the verbs of `partita sync`: `-o json`, tables, filters, errors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, ClassVar, Final, Protocol

import yaml
from django.core.management.base import CommandError, CommandParser

from kernel import clock
from kernel.commands import OUTPUTS, WIDE_OUTPUTS, ExitCode, add_output
from partita_client.command.output import printable_lines
from sync_stack.configuration.process_configuration import Configuration
from sync_stack.configuration.secrets import SecretError
from sync_stack.configuration.startup import refusing
from sync_stack.core.bundle.diagnostics import names_with_hint
from sync_stack.core.sink import SinkError
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.server.ports import open_bundle, ports_of
from sync_stack.orchestrator.services.execution.attempt import Ports
from sync_stack.orchestrator.services.operator_requests import NothingToSync, trigger_manual
from sync_stack.orchestrator.services.task_creation import TooManyTasks
from sync_stack.repositories import GitError

_FILTERS: Final = {
    "rule": "only targets of this rule",
    "repo": "owner/name",
    "env": "only of this environment",
    "datasource": "only of this datasource",
    "ref": "such as refs/heads/main",
}
_AGES: Final = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_COLUMN_OF: Final = {"rule": "rule_id"}  # the others are named as their column


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandAnswer:
    """What a command prints; with `failure` it then ends with that sentence and exit code 1."""

    document: object
    rows: Sequence[Sequence[object]]
    notes: Sequence[str] = ()  # lines below the table
    problems: Sequence[str] = ()  # lines for stderr
    failure: str = ""


class CommandOutput(Protocol):
    """Where a verb writes: a stream of a Django command."""

    def write(self, text: str) -> object:
        """Write a line."""

    def isatty(self) -> bool: ...


class SyncVerb:
    """A verb that prints a table, or with `-o json` a document.

    `columns` heads the table, and `wide_columns` what `-o wide` adds to it: every row has cells for
    both. `filters` are options of the rows to show; `choices` are further
    ones, each with the words that it takes, in any case. With `limit`, `--limit` says how many.
    """

    name: ClassVar[str]
    text: ClassVar[str]  # what it does, in a line
    help: ClassVar[str]
    examples: ClassVar[str]
    columns: ClassVar[Sequence[str]] = ()
    wide_columns: ClassVar[Sequence[str]] = ()
    filters: ClassVar[Sequence[str]] = ()
    choices: ClassVar[Mapping[str, type[StrEnum]]] = {}
    limit: ClassVar[int] = 0

    def add_arguments(self, parser: CommandParser) -> None:
        add_output(parser, WIDE_OUTPUTS if self.wide_columns else OUTPUTS)
        self.add_more(parser)
        for name in self.filters:
            parser.add_argument(f"--{name}", default="", help=_FILTERS[name])
        for name, words in self.choices.items():
            parser.add_argument(f"--{name}", default="", help=", ".join(words).lower())
        if self.limit:
            parser.add_argument("--limit", type=int, default=self.limit, help="at most so many")

    def add_more(self, parser: CommandParser) -> None:
        """Add the arguments of the verb itself; none by default."""

    def run(self, options: Mapping[str, Any], stdout: CommandOutput, stderr: CommandOutput) -> None:
        """Print the answer. Raises CommandError.

        What Git, a webhook or a datasource named must not drive a terminal.
        """
        try:
            answer = self._answer_options(options)
        except CommandError as error:
            text = printable_lines(str(error))
            raise CommandError(text, returncode=error.returncode) from error
        text = self.show(options["output"], answer)
        stdout.write(printable_lines(text) if stdout.isatty() else text)
        for problem in answer.problems:
            stderr.write(printable_lines(problem))
        if answer.failure:
            raise CommandError(printable_lines(answer.failure))

    def _answer_options(self, options: Mapping[str, Any]) -> CommandAnswer:
        """Check filters and choices, and return the answer."""
        chosen = {name: _choice(name, options[name], words) for name, words in self.choices.items()}
        if self.limit:
            chosen["limit"] = max(1, options["limit"])
        if "rule" in self.filters:
            self.check_rule(options["rule"])
        return self.answer({**options, **chosen})

    def answer(self, options: Mapping[str, Any]) -> CommandAnswer:
        """Do what the verb is for; filters and choices have been checked."""
        raise NotImplementedError

    def column_filters(self, options: Mapping[str, Any]) -> dict[str, str]:
        """Return column → text for the filters and choices that are set."""
        names = (*self.filters, *self.choices)
        return {_COLUMN_OF.get(name, name): options[name] for name in names if options[name]}

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

    @contextmanager
    def open_ports(self) -> Iterator[Ports]:
        """Yield ports for a verb that runs tasks itself, without publishing them."""
        with self.open_configuration() as configuration:
            yield self.ports(configuration)

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
        return ports_of(configuration, lambda _task_ids: None)

    def show(self, output: str, answer: CommandAnswer) -> str:
        """Return the answer as a document or as a table."""
        if output in ("json", "yaml"):
            return write_document(answer.document, output)
        heads = [*self.columns, *(self.wide_columns if output == "wide" else ())]
        table = [heads, *[list(map(str, row[: len(heads)])) for row in answer.rows]]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in table
        )
        return "\n".join([*lines, *answer.notes])


class RuleVerb(SyncVerb):
    """A verb for the rule that `--rule` names; `--repo` and `--env` narrow it."""

    filters = ("repo", "env")

    def add_more(self, parser: CommandParser) -> None:
        parser.add_argument("--rule", required=True, help="a rule of the bundle")

    def create_tasks(self, ports: Ports, options: Mapping[str, Any], **extra: Any) -> list[Task]:
        """Create a task for each ref of the rule, with `extra` as trigger_manual takes it."""
        name, bundle = options["rule"], ports.bundle()
        rule = bundle.find_rule(name)
        if rule is None:
            names = known_names(name, (each.name for each in bundle.rules))
            raise CommandError(f"no rule {name!r} {names}", returncode=ExitCode.NOT_FOUND)
        return trigger_manual(ports, rule, repo=options["repo"], env=options["env"], **extra)


def age_of(instant: datetime | None) -> str:
    """Return how long ago an instant was, for people: `45s`, `5m`, `3h`, `2d`; a dash for none."""
    if instant is None:
        return "-"
    passed_s = max(0.0, (clock.now() - instant).total_seconds())
    size, unit = next((entry for entry in _AGES if passed_s >= entry[0]), _AGES[-1])
    return f"{int(passed_s // size)}{unit}"


def write_document(document: object, output: str) -> str:
    """Return a document as JSON, or as YAML where that is the `output`."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if output == "json":
        return text
    return yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True)


def _choice(what: str, text: str, words: type[StrEnum]) -> str:
    """Return the text in the case of the words; refuse another word with exit code 2."""
    word = text.upper() if all(map(str.isupper, words)) else text.lower()
    if word and word not in set(words):
        raise CommandError(
            f"no {what} {word!r} {known_names(word, words)}", returncode=ExitCode.USAGE
        )
    return word


def known_names(name: str, names: Iterable[str]) -> str:
    """Return the known names, and the one that was probably meant: SUCCEEDED for SUCCESS."""
    options = sorted(set(names))
    return names_with_hint(options, next(iter(get_close_matches(name, options, n=1)), ""))
