"""`mock verify`: whether the calls came that a test expects."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Final

from apps.mocks.api import CallOutcome
from apps.mocks.management.server import MockServer, add_space, space_query
from apps.operations.api import (
    CommandOptions,
    ExitCode,
    VerbCommand,
    print_json,
    printable,
    report_error,
)
from kernel.errors import PlatformError

EXAMPLES: Final = """\
  partita mock verify shop --method POST --path /orders --count 2 --when body:card.type=visa
  partita mock verify shop --run run-0123456789ab --unmatched --count 0"""
_TEXTS: Final = {  # option: member of the body, help
    "--surface": ("surfaceId", "only of this API surface"),
    "--operation": ("operationId", "only of this operation, by its id"),
    "--method": ("method", "only with this method"),
    "--path": ("path", "only with this path below the surface; {x} is any one segment"),
    "--example": ("example", "only those that this example answered"),
    "--tag": ("tag", "only with this X-Partita-Mock-Tag"),
    "--since": ("since", "only since this time, such as 2026-01-02T03:04:05Z"),
}
_COUNTS: Final = {
    "--count": ("count", "so many calls there should be"),
    "--at-least": ("atLeast", "so many at least"),
    "--at-most": ("atMost", "so many at most"),
}


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    verify = command.add_verb(
        verbs,
        "verify",
        verify_calls,
        "count the calls of mocks; exit code 0: as many as expected, 1: not, 2: wrong question",
    )
    add_space(verify)
    for option, (member, text) in _TEXTS.items():
        verify.add_argument(option, dest=member, metavar="TEXT", help=text)
    for option, (member, text) in _COUNTS.items():
        verify.add_argument(option, dest=member, type=int, metavar="N", help=text)
    verify.add_argument("--outcome", choices=[*map(str, CallOutcome)], help="only that ended so")
    verify.add_argument(
        "--valid", choices=("true", "false"), help="only calls that fit, or break, their contract"
    )
    verify.add_argument(
        "--unmatched", action="store_true", default=None, help="calls that nothing answered"
    )
    verify.add_argument(
        "--when",
        action="append",
        type=condition_of,
        metavar="CONDITION",
        help="SOURCE:NAME=VALUE, SOURCE:NAME~PATTERN, SOURCE:NAME (is there), or a condition of "
        "example files as JSON; SOURCE is path, query, header or body; repeatable",
    )


def verify_calls(options: CommandOptions) -> int:
    names = [each[0] for each in (*_TEXTS.values(), *_COUNTS.values())]
    body: dict[str, object] = {
        **{name: value for name, value in space_query(options).items() if value},
        **{name: options[name] for name in (*names, "outcome", "unmatched", "when")},
    }
    if options["valid"]:
        body["valid"] = options["valid"] == "true"
    try:
        answer = MockServer(options["server"]).ask("POST", "verify", body=body)
    except PlatformError as error:
        code = report_error(error)
        return ExitCode.USAGE if error.problem_code == "validation_failed" else code
    if options["output"] == "json":
        print_json(answer)
    else:
        mark = "✓" if answer["verified"] else "✗"
        sys.stdout.write(f"{mark} {printable(answer['detail'])}\n")
    return ExitCode.OK if answer["verified"] else ExitCode.ERROR


def condition_of(text: str) -> dict[str, object]:
    """Return the condition that a word of the command line says."""
    if text.startswith("{"):
        try:
            return dict(json.loads(text))
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} is not JSON: {error}") from None
    source, colon, rest = text.partition(":")
    at = next((place for place, each in enumerate(rest) if each in "=~"), len(rest))
    name, operator, value = rest[:at], rest[at : at + 1], rest[at + 1 :]
    if not (source and colon and name):
        raise argparse.ArgumentTypeError(f"{text!r}: expected SOURCE:NAME=VALUE")
    key, wanted = {"=": ("value", value), "~": ("matches", value), "": ("absent", False)}[operator]
    return {"from": source, "param": name, key: wanted}
