"""Misspellings and mistakes in contracts: none is silent, each is named with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.mistakes import Mistake, read_mistakes, said_of_suite

TABLES = sorted(Path(__file__).with_name("mistakes").glob("*.txt"))
CASES = [
    pytest.param(mistake, id=f"{table.stem}: {mistake}")
    for table in TABLES
    for mistake in read_mistakes(table)
]


@pytest.mark.parametrize("mistake", CASES)
def test_a_mistake_is_named_at_its_place(mistake: Mistake):
    if not mistake.words:
        assert said_of_suite({mistake.path: mistake.text}) == []
        return
    mistake.check(said_of_suite({mistake.path: mistake.wrong_text()}))
