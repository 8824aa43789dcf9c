"""`mock lint`: what is wrong, or most likely wrong, in the mocks of suites."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from apps.operations.api import CommandOptions, VerbCommand, report_diagnostics
from apps.suites import api as suites
from mocks.standalone.served_files import ServedFiles
from readers.diagnostics import Diagnostic
from surfaces.mock_lint import lint_mocks

EXAMPLES: Final = """\
  partita mock lint shop            examples that never answer or break their contract
  partita mock lint ./openapi.yaml ./recorded
  partita mock lint --strict -o json"""


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    lint = command.add_verb(
        verbs, "lint", lint_suites, "report examples that never answer or break their contract"
    )
    lint.add_argument("suite", nargs="*", help="suite ids, folders or files (default: every suite)")
    lint.add_argument("--strict", action="store_true", help="exit code 1 on warnings too")


def lint_suites(options: CommandOptions) -> int:
    if suites.use_files_without_store():
        sys.stderr.write(f"{suites.NO_STORE}\n")
    wanted = options["suite"] or [each["id"] for each in suites.list_suites()]
    return report_diagnostics({name: _diagnostics(name) for name in wanted}, options)


def _diagnostics(name: str) -> list[Diagnostic]:
    """Return those of a suite by its id, otherwise of a folder or file; raise SuiteNotFound."""
    place = Path(name)
    known = name in {each["id"] for each in suites.list_suites()}
    if place.exists() and ("/" in name or not known):
        reading = ServedFiles(place).read("http://localhost")
        return lint_mocks(reading.content.surfaces, reading.warnings)
    return suites.lint_mocks_of(name)
