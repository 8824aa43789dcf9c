"""`suite validate` and `suite lint`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from apps.operations.api import (
    CommandOptions,
    ExitCode,
    VerbCommand,
    escape,
    print_json,
    report_diagnostics,
)
from apps.suites import api as suites
from apps.suites.authoring import checks
from apps.suites.management.verbs import output
from apps.suites.selectors import focus_on

if TYPE_CHECKING:
    from rich.console import Console


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    validate = command.add_verb(
        verbs,
        "validate",
        validate_suites,
        "resolve suites under each profile and report errors",
    )
    validate.add_argument("suite", nargs="*", help="suite ids (default: every suite)")
    lint = command.add_verb(
        verbs, "lint", lint_suites, "report what is wrong, or valid but probably wrong"
    )
    lint.add_argument("suite", nargs="*", help="suite ids (default: every suite)")
    lint.add_argument("--strict", action="store_true", help="exit code 1 on warnings too")


def validate_suites(options: CommandOptions) -> int:
    wanted = _choose_suites(options)
    definitions = [suites.get_definition(suite_id) for suite_id in wanted]
    checked = [(each, checks.check_profiles(each["id"])) for each in definitions]
    if options["output"] == "json":
        verdicts = [_short_form(each) | {"profiles": profiles} for each, profiles in checked]
        print_json({"suites": verdicts})
    else:
        for definition, profiles in checked:
            _print_verdict(definition, profiles)
    broken = any(
        "topologyError" in definition or any("error" in profile for profile in profiles)
        for definition, profiles in checked
    )
    return ExitCode.ERROR if broken else ExitCode.OK


def lint_suites(options: CommandOptions) -> int:
    wanted = _choose_suites(options)
    return report_diagnostics({name: checks.lint_suite(name) for name in wanted}, options)


def _choose_suites(options: CommandOptions) -> list[str]:
    """Return the ids of the suites that are named, else of all."""
    if named := options["suite"]:
        focus_on(named)
        return list(named)
    return [definition["id"] for definition in suites.list_suites()]


def _print_verdict(
    definition: suites.DefinitionDocument, profiles: Sequence[checks.ProfileVerdict]
) -> None:
    console = output.console()
    error = definition.get("topologyError")
    steps = len(definition.get("topology", []))
    _print_check(console, "", definition["id"], steps, error)
    for profile in profiles:
        if error is None or profile.get("error") != error:  # the same one is not said twice
            name = f"profile {profile['fileName']}"
            _print_check(console, "  ", name, profile["stepCount"], profile.get("error"))
    for warning in definition["warnings"]:
        console.print(
            f"  [yellow]![/] {escape(output.position(warning))}{escape(warning['detail'])}"
        )


def _print_check(
    console: Console, indent: str, name: str, steps: int, error: Mapping[str, Any] | None
) -> None:
    if error is None:
        console.print(f"{indent}[green]✓[/] {escape(name)}: {steps} steps")
        return
    console.print(
        f"{indent}[red]✗[/] {escape(name)}: {escape(output.position(error) + error['message'])}"
    )
    if error.get("sourceLine"):
        console.print(f"{indent}    {escape(error['sourceLine'])}")


def _short_form(definition: suites.DefinitionDocument) -> dict[str, object]:
    keys = ("id", "title", "description", "launchable", "topologyError", "warnings")
    document: Mapping[str, object] = definition
    shown = {key: document[key] for key in keys if key in document}
    return shown | {"stepCount": len(definition.get("topology", []))}
