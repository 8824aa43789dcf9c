"""`partita sync check [PATH] [--strict] [--resolve] [-o json]`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from kernel.commands import ExitCode
from kernel.redaction import known_secrets
from readers.diagnostics import Diagnostic
from sync_stack.configuration.conf import (
    BundleSettings,
    Environment,
    bundle_settings,
    process_environment,
)
from sync_stack.configuration.process_configuration import check_file
from sync_stack.configuration.startup import StartRefused, refusing
from sync_stack.orchestrator.management.base import CommandOutput, SyncVerb, write_document


class CheckVerb(SyncVerb):
    name = "check"
    text = "check config.cue"
    help = (
        "Print every error and warning of a bundle, with file, line and column. The exit code is "
        "78 for errors, and 1 for warnings with --strict."
    )
    examples = """\
  partita sync check config.cue
  partita sync check config.cue --strict --resolve
  partita sync check -o json"""

    def add_more(self, parser: CommandParser) -> None:
        parser.add_argument("path", nargs="?", type=Path, help="the bundle; default CONFIG_PATH")
        parser.add_argument("--strict", action="store_true", help="warnings give exit code 1")
        parser.add_argument("--resolve", action="store_true", help="also fetch every secret")

    def run(
        self, options: Mapping[str, Any], stdout: CommandOutput, _stderr: CommandOutput
    ) -> None:
        """Print what is wrong and end with its exit code."""
        with refusing():
            settings = _settings(options["path"])
        complaints = check_file(settings, resolve=options["resolve"])
        code = exit_code(complaints, strict=options["strict"] or settings.strict)
        if options["output"] in ("json", "yaml"):
            text = write_document(bundle_document(complaints, settings.file), options["output"])
        else:
            text = as_text(complaints, settings.file)
        stdout.write(known_secrets.mask(text))
        sys.exit(code)


def _settings(path: Path | None) -> BundleSettings:
    """Raises StartRefused."""
    environment = Environment(process_environment())
    settings = bundle_settings(environment, app_env=environment.app_env())
    if environment.problems:
        raise StartRefused(environment.problems)
    return replace(settings, path=path, name="") if path else settings


def exit_code(complaints: tuple[Diagnostic, ...], *, strict: bool) -> int:
    severities = {entry.severity for entry in complaints}
    if "error" in severities:
        return ExitCode.CONFIGURATION
    return ExitCode.ERROR if strict and severities else ExitCode.OK


def as_text(complaints: tuple[Diagnostic, ...], file: str) -> str:
    lines = [f"{entry.severity}: {entry}" for entry in complaints]
    errors = sum(entry.severity == "error" for entry in complaints)
    warnings = len(complaints) - errors
    verdict = "valid" if not errors else "not valid"
    return "\n".join([*lines, f"{file}: {verdict}, {errors} errors, {warnings} warnings"])


def bundle_document(complaints: tuple[Diagnostic, ...], file: str) -> dict[str, object]:
    return {
        "file": file,
        "valid": not any(entry.severity == "error" for entry in complaints),
        "complaints": [entry.as_dict() for entry in complaints],
    }
