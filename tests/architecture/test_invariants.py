"""The lists of rules and tests are what the tests say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import invariants

_WRITE = "run: python -m tests.support.invariants"


def name_of(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", invariants.NAMED, ids=name_of)
def test_the_lists_of_tests_are_up_to_date(path: Path) -> None:
    assert invariants.updated(path) == path.read_text(), _WRITE


@pytest.mark.parametrize("path", invariants.NAMED, ids=name_of)
def test_every_number_that_a_test_names_is_a_rule(path: Path) -> None:
    stated = invariants.rules(path)
    assert sorted(stated) == list(range(1, len(stated) + 1))
    assert set(invariants.tests_by_rule(path)) <= set(stated)


def test_every_rule_of_the_sync_has_a_test_that_names_it() -> None:
    document = invariants.SYNC_DOCUMENT
    assert set(invariants.tests_by_rule(document)) == set(invariants.rules(document))
