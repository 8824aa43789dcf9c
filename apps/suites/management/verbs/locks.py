"""`suite lock`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.operations.api import CommandOptions, ExitCode, VerbCommand, escape, print_json
from apps.suites import api as suites
from apps.suites.authoring import locks
from apps.suites.dependencies import lock_file
from apps.suites.domain import differences
from apps.suites.management.verbs import output
from apps.suites.selectors import focus_on


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    lock = command.add_verb(
        verbs, "lock", lock_suites, "pin imports and modules of suites to their present content"
    )
    lock.add_argument(
        "suite",
        nargs="*",
        help="suite ids (default: every suite that imports suites or loads modules of registries)",
    )
    lock.add_argument(
        "--check", action="store_true", help="write nothing; report what a new lock changes"
    )


def lock_suites(options: CommandOptions) -> int:
    if options["suite"]:
        focus_on(options["suite"])
    wanted = options["suite"] or locks.suites_to_lock()
    # what a new lock changes is known before the file is written
    compared = {name: suites.lock_difference(name) for name in wanted}
    new_locks = {name: each.lock for name, each in compared.items()}
    if not options["check"]:
        for name in wanted:
            locks.lock_suite(name, write=True)
    if options["output"] == "json":
        print_json({"suites": [_document(name, each) for name, each in compared.items()]})
    else:
        for name, each in compared.items():
            _print_lock(name, each.lock, written=not options["check"])
            if not each.lock.is_current:
                _print_difference(each)
        if not new_locks:
            output.print_sentence("no suite imports another one or loads a module of a registry")
    outdated = any(not lock.is_current for lock in new_locks.values())
    return ExitCode.ERROR if options["check"] and outdated else ExitCode.OK


def _document(name: str, compared: locks.LockComparison) -> dict[str, object]:
    lock = compared.lock
    problem = {"problem": compared.problem} if compared.problem else {}
    return {
        "id": name,
        "file": lock.path,
        "current": lock.is_current,
        "dependencies": [
            {"alias": each.alias, **_change_document(each)} for each in lock.dependencies
        ],
        "modules": [{"label": each.alias, **_change_document(each)} for each in lock.modules],
        "difference": compared.difference,
        **problem,
    }


def _change_document(change: lock_file.LockedDependency) -> dict[str, str]:
    return {
        "ref": change.ref,
        "state": change.state,
        "before": change.before,
        "after": change.after,
    }


def _print_lock(name: str, lock: lock_file.NewLock, *, written: bool) -> None:
    console = output.console()
    if lock.is_current and not lock.dependencies:
        console.print(f"[green]✓[/] {escape(name)} imports no suite, so there is nothing to lock")
        return
    if lock.is_current:
        console.print(f"[green]✓[/] {escape(name)}: {escape(lock.path)} is up to date")
        return
    outcome = "written" if written else "out of date; `partita suite lock` renews it"
    mark = "[green]✓[/]" if written else "[red]✗[/]"
    console.print(f"{mark} {escape(name)}: {escape(lock.path)} {outcome}")
    for each in lock.dependencies:
        change = " → ".join(filter(None, (_short(each.before), _short(each.after))))
        console.print(f"    {each.state:<8} {escape(each.alias)}  {escape(change)}")
    for each in lock.modules:
        change = " → ".join(filter(None, (_short(each.before), _short(each.after))))
        place = f"of {each.ref}" if each.after else "suite.star does not load it"
        console.print(f"    {each.state:<8} {escape(each.alias)}  {escape(f'{change}  {place}')}")


def _print_difference(compared: locks.LockComparison) -> None:
    """Print what the new lock changes, in the order: topology, contracts, images, env."""
    console, found = output.console(), compared.difference
    if compared.problem:
        console.print(f"      under the present lock: {escape(compared.problem)}")
    lines = [
        *(f"+ step {node_id}" for node_id in found["added"]),
        *(f"- step {node_id}" for node_id in found["removed"]),
        *(f"~ step {each['id']}: {', '.join(each['members'])}" for each in found["changed"]),
        *(f"~ contract {_change(each, _short)}" for each in found["contracts"]),
        *(f"~ image of {_change(each)}" for each in found["images"]),
        *(
            f"~ env of {node['id']}: {_change(each)}"
            for node in found["env"]
            for each in node["changes"]
        ),
    ]
    for line in lines:
        console.print(f"      {escape(line)}")


def _change(change: differences.Change, shown: Callable[[str], str] = str) -> str:
    before, after = (shown(change[side]) or "–" for side in ("before", "after"))
    return f"{change['name']}: {before} → {after}"


def _short(digest: str) -> str:
    return digest[:19]
