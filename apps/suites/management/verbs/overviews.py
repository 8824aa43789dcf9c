"""`suite list` and `suite show`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from apps.operations.api import (
    CommandOptions,
    ExitCode,
    VerbCommand,
    escape,
    print_json,
    print_table,
)
from apps.suites import api as suites
from apps.suites.management.verbs import output
from apps.suites.selectors import focus_on

if TYPE_CHECKING:
    from rich.tree import Tree


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    command.add_verb(verbs, "list", list_suites, "list every suite with its error")
    show = command.add_verb(verbs, "show", show_suite, "show one suite: topology and profiles")
    show.add_argument("suite", help="the suite's id, its folder name")


def list_suites(options: CommandOptions) -> int:
    definitions = suites.list_suites()
    if options["output"] == "json":
        print_json({"suites": [summary(definition) for definition in definitions]})
        return ExitCode.OK
    rows = [
        (
            definition["id"],
            definition["title"],
            str(len(definition.get("topology", []))) if "topology" in definition else "–",
            ", ".join(profile["fileName"] for profile in definition["profiles"]),
            "ok" if "topologyError" not in definition else definition["topologyError"]["code"],
        )
        for definition in definitions
    ]
    print_table(("ID", "TITLE", "STEPS", "PROFILES", "STATE"), rows)
    return ExitCode.OK


def show_suite(options: CommandOptions) -> int:
    focus_on([options["suite"]])
    definition = suites.get_definition(options["suite"])
    if options["output"] == "json":
        print_json(definition)
        return ExitCode.OK
    console = output.console()
    console.print(f"[bold]{escape(definition['title'])}[/]  {escape(definition['description'])}")
    if error := definition.get("topologyError"):
        console.print(f"[red]✗[/] {escape(output.position(error))}{escape(error['message'])}")
        return ExitCode.ERROR
    console.print(_tree(definition))
    for profile in definition["profiles"]:
        mark = " (default)" if profile["default"] else ""
        console.print(
            f"profile {escape(profile['fileName'])}{mark}  {escape(profile['description'])}"
        )
    return ExitCode.OK


def _tree(definition: suites.DefinitionDocument) -> Tree:
    from rich.tree import Tree

    root = Tree(escape(definition["id"]))
    levels: dict[int, Tree] = {}
    for node in definition["topology"]:
        level = node["level"]
        if level not in levels:
            levels[level] = root.add(f"level {level}")
        after = f"  after {', '.join(node['after'])}" if node["after"] else ""
        triggers = f"  if one failed: {', '.join(node['onFailure'])}" if node["onFailure"] else ""
        label = f"[bold]{escape(node['id'])}[/] {node['kind']}{escape(after + triggers)}"
        levels[level].add(label)
    return root


def summary(definition: suites.DefinitionDocument) -> dict[str, object]:
    keys = ("id", "title", "description", "launchable", "topologyError", "warnings")
    document: Mapping[str, object] = definition
    shown = {key: document[key] for key in keys if key in document}
    return shown | {"steps": len(definition.get("topology", []))}
