"""`suite lock`."""

from __future__ import annotations

from typing import Any

from apps.operations.api import ExitCode, VerbCommand, escape, print_json
from apps.suites import api as suites
from apps.suites.management.verbs import output


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    lock = command.add_verb(
        verbs, "lock", lock_suites, "pin the imports of suites to their present content"
    )
    lock.add_argument(
        "suite", nargs="*", help="suite ids (default: every suite with a dependencies.yaml)"
    )
    lock.add_argument(
        "--check", action="store_true", help="write nothing; report what a new lock changes"
    )


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
            output.print_sentence("no suite imports another one")
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
    console = output.console()
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
