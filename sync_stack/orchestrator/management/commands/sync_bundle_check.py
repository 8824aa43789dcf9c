"""`manage.py sync_bundle_check [PATH] [--strict] [--resolve] [-o json]`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from kernel.redaction import known_secrets
from readers.diagnostics import Diagnostic
from sync_stack.configuration.conf import (
    BundleSettings,
    Environment,
    bundle_settings,
    process_environment,
)
from sync_stack.configuration.process_configuration import check_file
from sync_stack.configuration.startup import EXIT_CONFIGURATION, StartRefused, refusing
from sync_stack.orchestrator.management.base import help_epilog

EXIT_VALID = 0
EXIT_WARNINGS = 1  # only with --strict
_EXIT_CODES = "0 valid; 1 warnings, with --strict; 2 wrong arguments; 78 errors."
_EXAMPLES = ("config.cue", "config.cue --strict --resolve", "-o json")


class Command(BaseCommand):
    help = "Print every error and warning of a bundle, with file, line and column."
    requires_system_checks: tuple[str, ...] = ()

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        end = help_epilog(subcommand, _EXIT_CODES, _EXAMPLES)
        return super().create_parser(prog_name, subcommand, **end, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", nargs="?", type=Path, help="the bundle; default CONFIG_PATH")
        parser.add_argument("--strict", action="store_true", help="warnings give exit code 1")
        parser.add_argument("--resolve", action="store_true", help="also fetch every secret")
        parser.add_argument("-o", "--output", choices=("text", "json"), default="text")

    def handle(self, *_args: Any, **options: Any) -> None:
        with refusing():
            settings = _settings(options["path"])
        complaints = check_file(settings, resolve=options["resolve"])
        code = exit_code(complaints, strict=options["strict"] or settings.strict)
        written = as_json if options["output"] == "json" else as_text
        self.stdout.write(known_secrets.mask(written(complaints, settings.file)))
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
        return EXIT_CONFIGURATION
    return EXIT_WARNINGS if strict and severities else EXIT_VALID


def as_text(complaints: tuple[Diagnostic, ...], file: str) -> str:
    lines = [f"{entry.severity}: {entry}" for entry in complaints]
    errors = sum(entry.severity == "error" for entry in complaints)
    warnings = len(complaints) - errors
    verdict = "valid" if not errors else "not valid"
    return "\n".join([*lines, f"{file}: {verdict}, {errors} errors, {warnings} warnings"])


def as_json(complaints: tuple[Diagnostic, ...], file: str) -> str:
    answer = {
        "file": file,
        "valid": not any(entry.severity == "error" for entry in complaints),
        "complaints": [entry.as_dict() for entry in complaints],
    }
    return json.dumps(answer, indent=2, ensure_ascii=False)
