"""`suite fork` and `suite pull`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apps.operations.api import ExitCode, VerbCommand, print_json
from apps.suites import api as suites
from apps.suites.management.verbs import output


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    fork = command.add_verb(verbs, "fork", fork_suite, "copy a suite's files into a new folder")
    pull = command.add_verb(verbs, "pull", pull_suite, "check whether a suite is in the workspace")
    for verb in (fork, pull):
        verb.add_argument("suite", help="its id, or its repository with a tag or digest")
    fork.add_argument("folder", help="the target folder, which must be new or empty")


def fork_suite(options: dict[str, Any]) -> int:
    suite, folder = suites.find_suite(options["suite"]), Path(options["folder"])
    suites.copy_files(suite, folder)
    if options["output"] == "json":
        print_json({"suite": suite.suite_id, "folder": str(folder), "digest": suite.digest})
    else:
        output.print_sentence(
            f"copied {len(suite.package.files)} files of {suite.suite_id} to {folder}"
        )
    return ExitCode.OK


def pull_suite(options: dict[str, Any]) -> int:
    """Find a suite of the workspace; this release does not pull from registries."""
    suite = suites.find_suite(options["suite"])
    if options["output"] == "json":
        print_json({"suite": suite.suite_id, "digest": suite.digest, "pulled": False})
    else:
        output.print_sentence(
            f"{suite.suite_id} is already in the workspace ({suite.digest}); nothing was pulled"
        )
    return ExitCode.OK
