"""`suite list` and `suite show`."""

from __future__ import annotations

from typing import Any

from apps.operations.api import (
    LIST_OUTPUTS,
    CommandOptions,
    ExitCode,
    VerbCommand,
    print_json,
    print_list,
)
from apps.suites import api as suites
from apps.suites.domain.definition import summary_of
from apps.suites.selectors import focus_on
from partita_client.command.resources import SUITE_COLUMNS, print_suite


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    text = "list every suite with its error"
    command.add_verb(verbs, "list", list_suites, text, outputs=LIST_OUTPUTS)
    show = command.add_verb(verbs, "show", show_suite, "show one suite: topology and profiles")
    show.add_argument("suite", help="the suite's id, its folder name")


def list_suites(options: CommandOptions) -> int:
    found = [summary_of(definition) for definition in suites.list_suites()]
    print_list("suites", found, SUITE_COLUMNS, options["output"], key="id")
    return ExitCode.OK


def show_suite(options: CommandOptions) -> int:
    focus_on([options["suite"]])
    definition = suites.get_definition(options["suite"])
    if options["output"] == "json":
        print_json(definition)
        return ExitCode.OK
    return print_suite(definition)
