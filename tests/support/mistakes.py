"""One mistake at a time in a file that is right, and what is said of it.

A table is a file: the path of the document, a line `----`, the document, a line `----`, and a
mistake on each line as `old => new => words`: `old` of the document becomes `new`, and what is said
of that line, or the next, has the words. `\\n` is a line break; the indentation of first lines is
left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from surfaces import hydrate
from surfaces.mock_lint import lint_mocks

Said = Sequence[tuple[str, int, int, str]]  # file, line, column, message


@dataclass(frozen=True)
class Mistake:
    """A mistake in the document `text` of a table."""

    path: str
    text: str
    old: str
    new: str
    words: str

    def __str__(self) -> str:
        return f"{self.old} -> {self.new}"

    def wrong_text(self) -> str:
        count = self.text.count(self.old)
        assert count == 1, f"{self.old!r} occurs {count} times"
        return self.text.replace(self.old, self.new)

    def check(self, said: Said) -> None:
        """Fail unless the mistake is named at its place, with the words."""
        first = self.text[: self.text.index(self.old)].count("\n") + 1
        lines = range(first, first + self.new.count("\n") + 2)
        named = [what for file, line, column, what in said
                 if file == self.path and line in lines and column]  # fmt: skip
        shown = "\n".join(f"{file}:{line}:{column}: {what}" for file, line, column, what in said)
        assert any(self.words in what for what in named), f"{lines}\n{shown or 'nothing is said'}"


def read_mistakes(table: Path) -> Iterator[Mistake]:
    """Yield the mistakes of a table, the first of which is none: it has no words."""
    path, text, rows = table.read_text().split("----\n")
    yield Mistake(path.strip(), text, "", "", "")
    for row in rows.splitlines():
        old, new, words = row.strip().split(" => ")
        old, new = (each.strip(" ").replace("\\n", "\n") for each in (old, new))
        yield Mistake(path.strip(), text, old, new, words.strip())


def said_of_suite(files: dict[str, str]) -> Said:
    """Return all that `mock lint` says of a suite."""
    content = {path: text.encode() for path, text in files.items()}
    found = hydrate(content, suite_id="shop", base_url="http://localhost:8090")
    listed = lint_mocks(found.surfaces, found.warnings)
    return [(each.file, each.line, each.column, each.message) for each in listed]
