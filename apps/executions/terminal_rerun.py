"""A rerun on the terminal: its plan, the attempts of a run, and what differs since a healthy run.

`…_lines` returns the lines to print.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apps.executions.domain.attempts import AttemptBody, attempt_numbers, gap_words, has_reruns
from apps.executions.domain.since_green import difference_name, difference_sides
from apps.executions.selectors.attempts import SinceGreen
from apps.executions.services.rerun import RerunPlanBody
from apps.operations.api import align_columns, printable

_NAMES: Final = 10  # of steps of one line


def plan_lines(plan: RerunPlanBody) -> list[str]:
    """Return which steps run again and why, and which do not."""
    profile = printable(plan["profile"]) or "no profile"
    lines = [
        f"{plan['rerunOf']} again: {printable(plan['suiteId'])} with {profile} "
        f"on {printable(plan['backend'])}",
        *align_columns([(f"  {each['id']}", each["text"]) for each in plan["steps"]]),
    ]
    by_reason: dict[str, list[str]] = {}
    for each in plan["notSelected"]:
        by_reason.setdefault(each["text"], []).append(each["id"])
    for text, ids in by_reason.items():
        more = f" and {len(ids) - _NAMES} more" if len(ids) > _NAMES else ""
        lines.append(f"  not run: {printable(', '.join(ids[:_NAMES]))}{more} ({text})")
    return [*lines, plan["sentence"]]


def attempt_lines(attempts: Sequence[AttemptBody], run_id: str) -> list[str]:
    """Return the attempts as one row and each with its id; nothing for a run without reruns."""
    if not has_reruns(attempts):
        return []
    rows = [
        (
            f"  {attempt_numbers(each)}",
            _result(each),
            each.get("id", ""),
            each.get("startedAt", "")[:19].replace("T", " "),
            "this run" if each.get("id") == run_id else each.get("profile", ""),
        )
        for each in attempts
    ]
    row = " → ".join(f"{attempt_numbers(each)} {_result(each)}" for each in attempts)
    return [f"attempts: {row}", *align_columns(rows)]


def _result(attempt: AttemptBody) -> str:
    return gap_words(attempt) or attempt["status"].lower()


def since_green_lines(found: SinceGreen) -> list[str]:
    """Return what differs, a line each, below the sentence."""
    rows = [
        (f"  {difference_name(each)}", " → ".join(difference_sides(each)))
        for each in found["differences"]
    ]
    more = found["moreDifferences"]
    return [found["sentence"], *align_columns(rows), *([f"  and {more} more"] if more else [])]
