"""A wait that fails quotes what is there when it fails."""

from __future__ import annotations

import pytest

from tests.support.processes import until


def test_a_failing_wait_says_what_the_log_holds_by_then() -> None:
    log: list[str] = []

    with pytest.raises(AssertionError, match=r"^not within 0\.05 s: line 1\nline 2"):
        until(
            lambda: log.append(f"line {len(log) + 1}"),
            within_s=0.05, what=lambda: "\n".join(log), each_s=0.01,
        )  # fmt: skip


def test_a_wait_that_succeeds_asks_for_no_text() -> None:
    def unwanted() -> str:
        raise AssertionError("the text is of no use")

    assert until(lambda: 3, within_s=0, what=unwanted) == 3
