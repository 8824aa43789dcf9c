"""What is wrong with a bundle, gathered while it is read: all of it, not only the first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from readers.diagnostics import Diagnostic, Severity, dotted
from readers.tree import Kind, Tree
from sync_stack.core.bundle.secret_refs import Location

MAX_ERRORS: Final = 50
NEAR: Final = 2  # edit distance up to which a name counts as a slip of the pen
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class LocatedValue:
    """A value of the file and the way to it."""

    tree: Tree
    path: Path = ()

    def member(self, name: str) -> LocatedValue | None:
        found = self.tree.get(name)
        return None if found is None else LocatedValue(found, (*self.path, name))

    def members(self) -> Iterator[tuple[str, LocatedValue]]:
        for name, tree in self.tree.pairs.items():
            yield name, LocatedValue(tree, (*self.path, name))

    def items(self) -> Iterator[LocatedValue]:
        for index, tree in enumerate(self.tree.items):
            yield LocatedValue(tree, (*self.path, index))

    def at(self, name: str) -> LocatedValue:
        """The place of a member that is absent: where its map stands, under its own name."""
        return self.member(name) or LocatedValue(self.tree, (*self.path, name))

    @property
    def kind(self) -> Kind:
        return self.tree.kind

    @property
    def text(self) -> str:
        return self.tree.text

    @property
    def place(self) -> Location:
        return Location(path=dotted(self.path), line=self.tree.line, column=self.tree.column)


class Diagnostics:
    """Complaints about one file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._all: list[Diagnostic] = []

    def error(self, spot: LocatedValue, code: str, message: str) -> None:
        self._add(spot, code, message, "error")

    def warn(self, spot: LocatedValue, code: str, message: str) -> None:
        self._add(spot, code, message, "warning")

    def _add(self, spot: LocatedValue, code: str, message: str, severity: Severity) -> None:
        self._all.append(complaint_at(self.file, spot.place, code, message, severity))

    def all(self, *, strict: bool = False) -> tuple[Diagnostic, ...]:
        """Sorted by position, at most 50 errors and 50 warnings; `strict`: warnings are errors."""
        return listed(self._all, strict=strict)


def complaint_at(
    file: str, place: Location, code: str, message: str, severity: Severity = "error"
) -> Diagnostic:
    return Diagnostic(
        file=file,
        line=place.line,
        column=place.column,
        path=place.path,
        code=code,
        severity=severity,
        message=message,
    )


def listed(complaints: Iterable[Diagnostic], *, strict: bool = False) -> tuple[Diagnostic, ...]:
    """As `Diagnostics.all`, for complaints from several sources. One said twice is said once."""
    found = [replace(entry, severity="error") if strict else entry for entry in complaints]
    found = sorted(dict.fromkeys(found), key=Diagnostic.order)
    errors = [entry for entry in found if entry.severity == "error"][:MAX_ERRORS]
    warnings = [entry for entry in found if entry.severity == "warning"][:MAX_ERRORS]
    return tuple(sorted(errors + warnings, key=Diagnostic.order))


def known_names(text: str, names: Iterable[str]) -> str:
    """`(known: mongo, redis; did you mean "redis"?)`."""
    options = sorted(set(names))
    hint = nearest(text, options)
    mean = f'; did you mean "{hint}"?' if hint else ""
    return f"(known: {', '.join(options) or 'none'}{mean})"


def nearest(text: str, names: Sequence[str]) -> str:
    """The name most like `text` within two edits; empty when none is."""
    near = [(distance(text.lower(), name.lower()), name) for name in names]
    near = [entry for entry in near if entry[0] <= NEAR]
    return min(near)[1] if near else ""


def distance(left: str, right: str) -> int:
    """Edits (insert, delete, replace) from one text to the other; 3 stands for any more."""
    if abs(len(left) - len(right)) > NEAR:
        return NEAR + 1
    row = list(range(len(right) + 1))
    for above, char in enumerate(left):
        previous, row[0] = row[0], above + 1
        for index, other in enumerate(right, 1):
            replaced = previous + (char != other)
            previous, row[index] = row[index], min(row[index] + 1, row[index - 1] + 1, replaced)
    return min(row[-1], NEAR + 1)
