"""An error or warning in a file that people write, with its position."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Final, Literal

_SAME_LETTERS: Final = 0.88
Severity = Literal["error", "warning"]


def nearest_advice(name: str, known: Iterable[str]) -> str:
    """Return `did you mean X?` for a misspelled name, ignoring case, otherwise the known ones."""
    listed = list(known)
    near = nearest_name(name, listed)
    return f"did you mean {near}?" if near else f"known: {', '.join(listed)}"


def nearest_name(name: str, known: Iterable[str], *, least: float = 0.6) -> str:
    """Return the known name that a misspelled one is likest, ignoring case, "" if none is.

    `least` is how alike they must be, from 0 to 1.
    """
    folded = {each.lower(): each for each in known}
    written = name.lower()[:40]
    if near := get_close_matches(written, folded, n=1, cutoff=least):
        return folded[near[0]]
    # of short names, letters in the wrong order are much
    letters = {"".join(sorted(each)): each for each in folded if each[:1] == written[:1]}
    near = get_close_matches("".join(sorted(written)), letters, n=1, cutoff=_SAME_LETTERS)
    return folded[letters[near[0]]] if near else ""


def likely_name(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?`, to end a sentence with, "" if no known name is like it."""
    near = nearest_name(name, known, least=0.75)
    return f"; did you mean {near}?" if near else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One error or warning. `line` and `column` are 1-based, 0 where no place is known.

    `path` names the member as `bundle.rules[0].datasource`; it is empty for the file as a whole.
    """

    file: str
    line: int = 0
    column: int = 0
    path: str = ""
    code: str
    severity: Severity = "error"
    message: str

    def __str__(self) -> str:
        """`FILE:LINE:COLUMN: PATH: MESSAGE [CODE]`, without the parts that are not known."""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return ": ".join(
            part for part in (place, self.path, f"{self.message} [{self.code}]") if part
        )

    def as_dict(self) -> dict[str, object]:
        """The JSON form, every member present."""
        return asdict(self)

    def order(self) -> tuple[str, int, int, str, str]:
        """The key that sorts complaints by position."""
        return self.file, self.line, self.column, self.path, self.message


def dotted_path(path: tuple[str | int, ...]) -> str:
    """Return `("bundle", "rules", 0, "a-b")` as `bundle.rules[0]."a-b"`."""
    made = ""
    for part in path:
        if isinstance(part, int):
            made += f"[{part}]"
            continue
        name = part if part.replace("_", "a").replace("#", "a").isalnum() else f'"{part}"'
        made += f".{name}" if made else name
    return made
