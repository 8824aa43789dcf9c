"""Misspellings and mistakes in collections and recordings: `mock import` names each."""

from __future__ import annotations

from pathlib import Path

import pytest

from readers import Unreadable
from surfaces.imports import convert_file
from tests.support.mistakes import Mistake, Said, read_mistakes

TABLES = sorted(Path(__file__).with_name("mistakes").glob("imported/*.txt"))
CASES = [
    pytest.param(mistake, id=f"{table.stem}: {mistake}")
    for table in TABLES
    for mistake in read_mistakes(table)
]


def _said(path: str, text: str) -> Said:
    try:
        found = convert_file(path, text.encode(), lambda _path: None)
    except Unreadable as error:
        return [(path, error.line or 0, error.column or 0, error.reason)]
    return [(each.file or "", each.line or 0, each.column or 0, each.detail)
            for each in found.warnings]  # fmt: skip


@pytest.mark.parametrize("mistake", CASES)
def test_a_mistake_is_named_at_its_place(mistake: Mistake):
    if not mistake.words:
        assert _said(mistake.path, mistake.text) == []
        return
    mistake.check(_said(mistake.path, mistake.wrong_text()))
