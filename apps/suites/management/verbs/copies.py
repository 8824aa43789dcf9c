"""`suite push`, `suite pull` and `suite fork`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from apps.operations.api import CommandOptions, ExitCode, VerbCommand, print_json, printable
from apps.suites import api as suites
from apps.suites.authoring import suite_files
from apps.suites.management.verbs import output
from apps.suites.selectors import focus_on
from apps.suites.services import transfers


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    push = command.add_verb(verbs, "push", push_package, "push a suite or a module to a registry")
    push.add_argument("suite", help="the suite's id, or @scope/name of a module of MODULES_DIR")
    push.add_argument("reference", help="HOST/REPOSITORY:TAG of a registry of the settings")
    push.add_argument(
        "--force", action="store_true", help="move the tag if it names other content already"
    )
    pull = command.add_verb(
        verbs,
        "pull",
        pull_suite,
        "pull a suite's package, and write its files if a folder is named",
    )
    pull.add_argument("suite", help="its repository with :TAG or @sha256:…, or its id")
    pull.add_argument("folder", nargs="?", help="the target folder, which must be new or empty")
    fork = command.add_verb(verbs, "fork", fork_suite, "copy a suite's files into a new folder")
    fork.add_argument("suite", help="its id, or its repository with a tag or digest")
    fork.add_argument("folder", help="the target folder, which must be new or empty")


def push_package(options: CommandOptions) -> int:
    name, reference = options["suite"], options["reference"]
    is_module = name.startswith("@")
    focus_on([] if is_module else [name])
    for warning in () if is_module else transfers.push_warnings(name, reference):
        _progress(f"warning: {warning}")
    _progress(f"pushing {name} to {reference} …")
    send = transfers.push_module if is_module else transfers.push_suite
    pushed = send(name, reference, force=options["force"])
    if options["output"] == "json":
        print_json(
            {
                "module" if is_module else "suite": name,
                "reference": reference,
                "digest": pushed.digest,
                "contentDigest": pushed.content_digest,
                "size": pushed.size,
                "pushed": pushed.is_new,
            }
        )
    elif not pushed.is_new:
        output.print_sentence(f"{reference} is {name} already; nothing was pushed")
        output.print_sentence(f"digest {pushed.digest}")
    else:
        output.print_sentence(f"pushed {name} to {reference}: {pushed.size} bytes")
        output.print_sentence(f"digest {pushed.digest}")
    return ExitCode.OK


def pull_suite(options: CommandOptions) -> int:
    """Pull and store a package; a suite of the workspace is only looked at."""
    reference, folder = options["suite"], options["folder"]
    _progress(f"looking for {reference} …")
    found = transfers.pull_suite(reference)
    suite, pulled = found.suite, found.came
    is_runnable = suite.package_problem is None  # a module is none
    if folder:
        suite_files.copy_files(suite, Path(folder))
    if options["output"] == "json":
        shown = {"suite": suite.suite_id, "digest": suite.lock_digest, "pulled": pulled}
        shown |= {"contentDigest": suite.digest} | ({"folder": folder} if folder else {})
        print_json(shown | ({"launchAs": found.launch_as} if is_runnable else {}))
        return ExitCode.OK
    place = f"; {len(suite.package.files)} files are in {folder}" if folder else ""
    if pulled:
        output.print_sentence(f"pulled {reference} ({suite.lock_digest}){place}")
        if is_runnable:
            output.print_sentence(f"it is the suite {suite.suite_id}; next:")
            output.print_sentence(f"  partita run launch {found.launch_as}")
    else:
        where = "in the workspace" if suite.source == "workspace" else "here"
        output.print_sentence(
            f"{suite.suite_id} is already {where} ({suite.digest}); nothing was pulled{place}"
        )
    return ExitCode.OK


def fork_suite(options: CommandOptions) -> int:
    _progress(f"looking for {options['suite']} …")
    focus_on([options["suite"]])
    suite, folder = suites.find_suite(options["suite"]), Path(options["folder"])
    suite_files.copy_files(suite, folder)
    if options["output"] == "json":
        print_json({"suite": suite.suite_id, "folder": str(folder), "digest": suite.digest})
    else:
        output.print_sentence(
            f"copied {len(suite.package.files)} files of {suite.suite_id} to {folder}"
        )
    return ExitCode.OK


def _progress(sentence: str) -> None:
    sys.stderr.write(f"{printable(sentence)}\n")
    sys.stderr.flush()
