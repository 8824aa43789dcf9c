from __future__ import annotations

import pytest

from apps.executions.domain.attempts import AttemptBody, attempt_row, shown_numbers


def made(*numbers: int) -> list[AttemptBody]:
    return [{"number": number, "id": f"run-{number}", "status": "Failed"} for number in numbers]


def words(row: list[AttemptBody]) -> str:
    """`1 2 [3-4 deleted] 5`."""
    return " ".join(
        f"[{each['number']}-{each['through']} {each['gap']}]" if "gap" in each
        else str(each["number"])
        for each in row
    )  # fmt: skip


@pytest.mark.parametrize(
    ("numbers", "own", "last", "row"),
    [
        ([1], 1, 1, "1"),
        ([1, 2, 3], 2, 3, "1 2 3"),
        ([3, 1, 2], 2, 3, "1 2 3"),
        ([2, 3], 3, 3, "[1-1 deleted] 2 3"),
        ([1, 5], 5, 5, "1 [2-4 deleted] 5"),
        ([1, 2], 1, 4, "1 2 [3-4 deleted]"),  # the newest ones are gone
        (range(1, 9), 8, 8, "1 [2-4 left_out] 5 6 7 8"),
        (range(1, 9), 3, 8, "1 [2-2 left_out] 3 [4-5 left_out] 6 7 8"),
        ([1, 4, 5, 6, 7, 8], 8, 8, "1 [2-3 deleted] [4-4 left_out] 5 6 7 8"),
    ],
)
def test_the_row_has_a_bound_and_says_what_it_leaves_out(numbers, own, last, row):
    shown = made(*shown_numbers(numbers, own, limit=5))

    assert words(attempt_row(shown, numbers=numbers, last=last)) == row
