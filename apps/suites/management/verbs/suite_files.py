"""`suite new` and `suite fmt`."""

from __future__ import annotations

import difflib
import shlex
import sys
from pathlib import Path
from typing import Any

from apps.operations.api import CommandOptions, ExitCode, VerbCommand, escape, print_json, printable
from apps.suites import api as suites
from apps.suites import conf
from apps.suites.authoring import suite_files
from apps.suites.management.verbs import output
from apps.suites.selectors import focus_on


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    new = command.add_verb(verbs, "new", new_suite, "write a suite that works, to start from")
    new.add_argument(
        "folder", help="the target folder, which must be new or empty; its name is the id"
    )
    origin = new.add_mutually_exclusive_group()
    origin.add_argument(
        "--template", choices=suite_files.starters(), default="empty", help="default: empty"
    )
    origin.add_argument("--from", dest="origin", metavar="SUITE", help="copy this suite instead")
    fmt = command.add_verb(verbs, "fmt", format_suites, "write the Starlark of suites in one style")
    fmt.add_argument("suite", nargs="*", help="suite ids (default: every suite of the workspace)")
    only = fmt.add_mutually_exclusive_group()
    only.add_argument("--check", action="store_true", help="write nothing; exit code 1 if it would")
    only.add_argument("--diff", action="store_true", help="write nothing; print what would change")


def new_suite(options: CommandOptions) -> int:
    folder = Path(options["folder"])
    if options["origin"]:
        suite = suites.find_suite(options["origin"])
        suite_files.copy_files(suite, folder)
        origin, files = suite.suite_id, sorted(suite.package.files)
    else:
        origin, files = options["template"], suite_files.new_suite(folder, options["template"])
    if options["output"] == "json":
        print_json({"folder": str(folder), "from": origin, "files": files})
        return ExitCode.OK
    suite_id = folder.resolve().name
    output.print_sentence(f"wrote {len(files)} files to {folder}, from {origin}; next:")
    if folder.resolve().parent != conf.suites_dir().resolve():
        move = f"mv {shlex.quote(str(folder))} {shlex.quote(str(conf.suites_dir()))}/"
        output.print_sentence(f"  {move}     # where commands look for suites")
    for words in ("suite lint", "run launch"):
        watch = " --watch" if words == "run launch" else ""
        output.print_sentence(f"  partita {words} {suite_id}{watch}")
    return ExitCode.OK


def format_suites(options: CommandOptions) -> int:
    if options["suite"]:
        focus_on(options["suite"])
    wanted = [suites.find_suite(name) for name in options["suite"]] or [
        suite for suite in suites.every_suite() if suite.source == "workspace"
    ]
    found = {suite.suite_id: [*suite_files.format_files(suite)] for suite in wanted}
    dry = options["check"] or options["diff"]
    if not dry:
        for suite in wanted:
            suite_files.write_formatted(suite, found[suite.suite_id])
    if options["output"] == "json":
        print_json({"suites": [_document(name, files) for name, files in found.items()]})
    else:
        for name, files in found.items():
            _print_files(name, files, options)
    everything = [each for files in found.values() for each in files]
    failed = any(each.problem for each in everything)
    changed = any(each.before != each.after for each in everything)
    return ExitCode.ERROR if failed or (dry and changed) else ExitCode.OK


def _document(name: str, files: list[suite_files.FormattedFile]) -> dict[str, object]:
    listed = [
        {"path": each.path, "changed": each.before != each.after, "problem": each.problem}
        for each in files
    ]
    return {"id": name, "files": listed}


def _print_files(
    name: str, files: list[suite_files.FormattedFile], options: CommandOptions
) -> None:
    console = output.console()
    for each in files:
        if each.problem:
            console.print(f"[red]✗[/] {escape(name)}: {escape(each.problem)}")
        elif each.before == each.after:
            console.print(f"[green]✓[/] {escape(name)}: {escape(each.path)} is already formatted")
        elif options["diff"]:
            lines = difflib.unified_diff(
                each.before.splitlines(),
                each.after.splitlines(),
                f"{name}/{each.path}",
                f"{name}/{each.path} (formatted)",
                lineterm="",
            )
            sys.stdout.writelines(f"{printable(line)}\n" for line in lines)
        else:
            said = "would change" if options["check"] else "formatted"
            console.print(f"[yellow]![/] {escape(name)}: {escape(each.path)} {said}")
