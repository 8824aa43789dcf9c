"""The tables of docs/suites.md are what the node kinds declare."""

from __future__ import annotations

import pytest

from apps.suites.calls import node_kinds
from tests.support import suite_reference


def test_the_tables_are_up_to_date():
    text = suite_reference.DOCUMENT.read_text()

    assert suite_reference.document(text) == text, "run: python -m tests.support.suite_reference"


@pytest.mark.parametrize("name", list(node_kinds))
def test_every_kind_is_documented_and_has_each_keyword_once(name):
    kind = node_kinds[name]
    names = [keyword.name for keyword in kind.keywords]

    assert kind.summary
    assert kind.hint
    assert len(names) == len(set(names))
    assert all(keyword.meaning for keyword in kind.keywords)
    assert not kind.functions or kind.positional in names
