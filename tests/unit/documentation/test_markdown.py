"""Tables in Markdown."""

from __future__ import annotations

from documentation.markdown import cell, codes, table


def test_a_table_has_a_line_for_each_row() -> None:
    assert table(("A", "B"), [("1", "")]) == "| A | B |\n|---|---|\n| 1 | – |\n"


def test_text_cannot_leave_its_cell() -> None:
    assert cell("a | b\n  c") == "a \\| b c"


def test_names_are_code() -> None:
    assert codes(["a", "b"]) == "`a`, `b`"
