"""`manage.py suite list|show|validate|lint|lock|pull|fork`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apps.operations.api import ExitCode, VerbCommand, escape, print_json, print_table
from apps.suites import api as suites
from readers.diagnostics import Diagnostic

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree


class Command(VerbCommand):
    help = "List, show, validate and copy suites."
    examples = """\
  manage.py suite list
  manage.py suite show hello
  manage.py suite validate shop        exit code 1 and file:line:column when it is broken
  manage.py suite validate -o json     every suite, for a pipeline
  manage.py suite lint shop            what is legal but most likely wrong
  manage.py suite lock composite       pin the suites that it imports to their present content
  manage.py suite lock --check         exit code 1 when a lock is missing or out of date
  manage.py suite fork workspace/shop:workspace ./my-shop
  manage.py suite pull workspace/shop:workspace"""

    def add_arguments(self, parser: Any) -> None:
        verbs = parser.add_subparsers(required=True, metavar="VERB")
        self.add_verb(verbs, "list", list_suites, "list every suite with its error")
        show = self.add_verb(verbs, "show", show_suite, "show one suite: topology and profiles")
        show.add_argument("suite", help="the suite's id, its folder name")
        validate = self.add_verb(
            verbs,
            "validate",
            validate_suites,
            "resolve suites under each profile and report errors",
        )
        validate.add_argument("suite", nargs="*", help="suite ids (default: every suite)")
        lint = self.add_verb(
            verbs, "lint", lint_suites, "report what is wrong, or legal but most likely wrong"
        )
        lint.add_argument("suite", nargs="*", help="suite ids (default: every suite)")
        lint.add_argument("--strict", action="store_true", help="exit code 1 on warnings too")
        lock = self.add_verb(
            verbs, "lock", lock_suites, "pin the imports of suites to their present content"
        )
        lock.add_argument(
            "suite", nargs="*", help="suite ids (default: every suite with a dependencies.yaml)"
        )
        lock.add_argument(
            "--check", action="store_true", help="write nothing; report what a new lock changes"
        )
        fork = self.add_verb(verbs, "fork", fork_suite, "copy a suite's files into a new folder")
        pull = self.add_verb(verbs, "pull", pull_suite, "check whether a suite is in the workspace")
        for verb in (fork, pull):
            verb.add_argument("suite", help="its id, or its repository with a tag or digest")
        fork.add_argument("folder", help="the target folder, which must be new or empty")

    def execute_command(self, options: dict[str, Any]) -> int:
        """Work on a checkout without a store as well: with the profiles of the files alone."""
        suites.use_files_without_store()
        return super().execute_command(options)


def list_suites(options: dict[str, Any]) -> int:
    definitions = suites.list_suites()
    if options["output"] == "json":
        print_json({"suites": [_summary(definition) for definition in definitions]})
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


def show_suite(options: dict[str, Any]) -> int:
    definition = suites.get_definition(options["suite"])
    if options["output"] == "json":
        print_json(definition)
        return ExitCode.OK
    console = _console()
    console.print(f"[bold]{escape(definition['title'])}[/]  {escape(definition['description'])}")
    if error := definition.get("topologyError"):
        console.print(f"[red]✗[/] {escape(_place(error))}{escape(error['message'])}")
        return ExitCode.ERROR
    console.print(_tree(definition))
    for profile in definition["profiles"]:
        mark = " (default)" if profile["default"] else ""
        console.print(
            f"profile {escape(profile['fileName'])}{mark}  {escape(profile['description'])}"
        )
    return ExitCode.OK


def validate_suites(options: dict[str, Any]) -> int:
    known = suites.list_suites()
    wanted = options["suite"] or [definition["id"] for definition in known]
    definitions = [suites.get_definition(suite_id) for suite_id in wanted]
    checked = [(each, suites.check_profiles(each["id"])) for each in definitions]
    if options["output"] == "json":
        verdicts = [_summary(each) | {"profiles": profiles} for each, profiles in checked]
        print_json({"suites": verdicts})
    else:
        for definition, profiles in checked:
            _print_verdict(definition, profiles)
    broken = any(
        "topologyError" in definition or any("error" in profile for profile in profiles)
        for definition, profiles in checked
    )
    return ExitCode.ERROR if broken else ExitCode.OK


def lint_suites(options: dict[str, Any]) -> int:
    wanted = options["suite"] or [definition["id"] for definition in suites.list_suites()]
    diagnostics = {name: suites.lint_suite(name) for name in wanted}
    if options["output"] == "json":
        listed = [
            {"id": name, "diagnostics": [each.as_dict() for each in own]}
            for name, own in diagnostics.items()
        ]
        print_json({"suites": listed})
    else:
        for name, own in diagnostics.items():
            _print_diagnostics(name, own)
    severities = {each.severity for own in diagnostics.values() for each in own}
    failed = "error" in severities or (options["strict"] and severities)
    return ExitCode.ERROR if failed else ExitCode.OK


def _print_diagnostics(name: str, diagnostics: Sequence[Diagnostic]) -> None:
    console = _console()
    errors = sum(each.severity == "error" for each in diagnostics)
    warnings = len(diagnostics) - errors
    mark = "[red]✗[/]" if errors else "[yellow]![/]" if warnings else "[green]✓[/]"
    counts = f"{_count(errors, 'error')}, {_count(warnings, 'warning')}"
    console.print(f"{mark} {escape(name)}: {counts if diagnostics else 'nothing to report'}")
    for each in diagnostics:
        console.print(f"    {each.severity:<7} {escape(str(each))}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def lock_suites(options: dict[str, Any]) -> int:
    wanted = options["suite"] or [
        definition["id"]
        for definition in suites.list_suites()
        if any(file["path"] in suites.DEPENDENCY_FILES for file in definition["sourceFiles"])
    ]
    locks = {name: suites.lock_suite(name, write=not options["check"]) for name in wanted}
    if options["output"] == "json":
        print_json({"suites": [_lock_document(name, lock) for name, lock in locks.items()]})
    else:
        for name, lock in locks.items():
            _print_lock(name, lock, written=not options["check"])
        if not locks:
            _say("no suite imports another one")
    outdated = any(not lock.is_current for lock in locks.values())
    return ExitCode.ERROR if options["check"] and outdated else ExitCode.OK


def _lock_document(name: str, lock: suites.NewLock) -> dict[str, object]:
    listed = [
        {
            "alias": each.alias,
            "ref": each.ref,
            "state": each.state,
            "before": each.before,
            "after": each.after,
        }
        for each in lock.dependencies
    ]
    return {"id": name, "file": lock.path, "current": lock.is_current, "dependencies": listed}


def _print_lock(name: str, lock: suites.NewLock, *, written: bool) -> None:
    console = _console()
    if lock.is_current:
        console.print(f"[green]✓[/] {escape(name)}: {escape(lock.path)} is up to date")
        return
    outcome = "written" if written else "out of date; `manage.py suite lock` renews it"
    mark = "[green]✓[/]" if written else "[red]✗[/]"
    console.print(f"{mark} {escape(name)}: {escape(lock.path)} {outcome}")
    for each in lock.dependencies:
        change = " → ".join(filter(None, (_short(each.before), _short(each.after))))
        console.print(f"    {each.state:<8} {escape(each.alias)}  {escape(change)}")


def _short(digest: str) -> str:
    return digest[:19]


def fork_suite(options: dict[str, Any]) -> int:
    suite, folder = suites.find_suite(options["suite"]), Path(options["folder"])
    suites.copy_files(suite, folder)
    if options["output"] == "json":
        print_json({"suite": suite.suite_id, "folder": str(folder), "digest": suite.digest})
    else:
        _say(f"copied {len(suite.package.files)} files of {suite.suite_id} to {folder}")
    return ExitCode.OK


def pull_suite(options: dict[str, Any]) -> int:
    """Find a suite of the workspace; this release does not pull from registries."""
    suite = suites.find_suite(options["suite"])
    if options["output"] == "json":
        print_json({"suite": suite.suite_id, "digest": suite.digest, "pulled": False})
    else:
        _say(f"{suite.suite_id} is already in the workspace ({suite.digest}); nothing was pulled")
    return ExitCode.OK


def _console() -> Console:
    from rich.console import Console  # slow to import: `suite list` does without

    return Console(highlight=False, soft_wrap=True)


def _say(sentence: str) -> None:
    _console().print(escape(sentence))


def _print_verdict(
    definition: suites.DefinitionDocument, profiles: Sequence[suites.ProfileVerdict]
) -> None:
    console = _console()
    error = definition.get("topologyError")
    steps = len(definition.get("topology", []))
    _print_check(console, "", definition["id"], steps, error)
    for profile in profiles:
        if error is None or profile.get("error") != error:  # the same one is not said twice
            name = f"profile {profile['fileName']}"
            _print_check(console, "  ", name, profile["steps"], profile.get("error"))
    for warning in definition["warnings"]:
        console.print(f"  [yellow]![/] {escape(_place(warning))}{escape(warning['detail'])}")


def _print_check(
    console: Console, indent: str, name: str, steps: int, error: Mapping[str, Any] | None
) -> None:
    if error is None:
        console.print(f"{indent}[green]✓[/] {escape(name)}: {steps} steps")
        return
    console.print(f"{indent}[red]✗[/] {escape(name)}: {escape(_place(error) + error['message'])}")
    if error.get("sourceLine"):
        console.print(f"{indent}    {escape(error['sourceLine'])}")


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


def _place(fault: Mapping[str, object]) -> str:
    parts = [str(fault[key]) for key in ("file", "line", "column") if key in fault]
    return ":".join(parts) + ": " if parts else ""


def _summary(definition: suites.DefinitionDocument) -> dict[str, object]:
    keys = ("id", "title", "description", "launchable", "topologyError", "warnings")
    document: Mapping[str, object] = definition
    shown = {key: document[key] for key in keys if key in document}
    return shown | {"steps": len(definition.get("topology", []))}
