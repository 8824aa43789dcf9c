"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; text of a cell stands in one line, and a pipe in it is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines).replace(
        "| " + " | ".join(["---"] * len(header)) + " |", "|" + "---|" * len(header), 1
    )


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|") or "–"


def code(text: object) -> str:
    """Return text as code; empty for an empty text."""
    return f"`{text}`" if str(text) else ""


def codes(names: Iterable[object]) -> str:
    return ", ".join(map(code, names))
