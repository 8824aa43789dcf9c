"""Arguments that several verbs of `run` take, and their types."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping
from typing import Any, Final

from apps.executions.domain.states import ExecutionStatus
from kernel.durations import parse_duration_ms

Options = Mapping[str, Any]  # of a verb
_MOST_RUNS: Final = 200


def add_run(parser: Any) -> None:
    parser.add_argument("run", type=run_id_of, metavar="RUN")


def run_id_of(text: str) -> str:
    """A run's id, or the address of its page."""
    return text.rstrip("/").rsplit("/", 1)[-1].split("?")[0].split("#")[0]


def seconds(text: str) -> float:
    try:
        return parse_duration_ms(text) / 1000
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def limit(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_RUNS:
        raise ArgumentTypeError(f"{text!r}: expected 1 to {_MOST_RUNS}")
    return int(text)


def statuses(text: str) -> str:
    """Return the comma list as the store has it; upper and lower case are the same."""
    known = {status.value.lower(): status.value for status in ExecutionStatus}
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name.lower() not in known]:
        raise ArgumentTypeError(f"{unknown[0]!r}: expected one of {', '.join(known.values())}")
    return ",".join(known[name.lower()] for name in names)
