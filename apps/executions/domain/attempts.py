"""The attempts of a run in a row: the first run and its reruns, with the gaps of deleted ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal, TypedDict

MAX_ATTEMPTS: Final = 20  # of a row; gaps are not counted
_GAPS: Final = {"deleted": "deleted", "left_out": "not shown"}


class _AttemptRun(TypedDict, total=False):
    """Present unless the entry is a gap; `rerunOf` is absent from the first run."""

    id: str
    status: str
    sentence: str
    startedAt: str
    durationMs: int
    profile: str
    rerunOf: str


class _AttemptGap(TypedDict, total=False):
    """A gap: attempts that are deleted, or left out of a long row."""

    through: int
    gap: Literal["deleted", "left_out"]


class AttemptBody(_AttemptRun, _AttemptGap):
    """An attempt of a run, or a gap from `number` through `through`; as on the wire."""

    number: int


def shown_numbers(numbers: Collection[int], own: int, limit: int = MAX_ATTEMPTS) -> set[int]:
    """Return the numbers of a row, at most `limit`: the first, the own one and the newest."""
    shown = {min(numbers), own} if numbers else set()
    for number in sorted(numbers, reverse=True):
        if len(shown) >= limit:
            break
        shown.add(number)
    return shown


def attempt_row(
    shown: Iterable[AttemptBody], *, numbers: Collection[int], last: int
) -> list[AttemptBody]:
    """Return the attempts in order, with the gaps between them.

    `numbers` are those of all attempts that are left, `last` is the highest that was ever given.
    """
    by_number = {each["number"]: each for each in shown}
    row: list[AttemptBody] = []
    for number in range(1, max([last, *numbers]) + 1):
        if number in by_number:
            row.append(by_number[number])
        else:
            _extend_gap(row, number, "left_out" if number in numbers else "deleted")
    return row


def has_reruns(attempts: Sequence[AttemptBody]) -> bool:
    """Return whether there is more to a row than the run itself."""
    return len(attempts) > 1 or any("gap" in each for each in attempts)


def attempt_numbers(attempt: AttemptBody) -> str:
    """Return the number of an attempt, or the numbers of a gap, as people read them."""
    number, through = attempt["number"], attempt.get("through", 0)
    return f"{number}–{through}" if through > number else str(number)


def gap_words(attempt: AttemptBody) -> str:
    """Return why there is a gap; empty for an attempt."""
    return _GAPS[attempt["gap"]] if "gap" in attempt else ""


def _extend_gap(row: list[AttemptBody], number: int, gap: Literal["deleted", "left_out"]) -> None:
    if row and row[-1].get("gap") == gap:
        row[-1]["through"] = number
    else:
        row.append({"number": number, "through": number, "gap": gap})
