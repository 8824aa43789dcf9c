"""Values of a bundle with their locations, and the errors and warnings found in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from readers.diagnostics import Diagnostic, Severity, dotted_path
from readers.tree import Kind, Tree

MAX_ERRORS: Final = 50
NEAR: Final = 2  # edit distance up to which a name counts as a typing error


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A position in the bundle; `path` reads like `bundle.platforms[0].github.secret`."""

    path: str = "bundle"
    line: int = 0
    column: int = 0


class InvalidValue(Exception):
    """A value failed validation; the diagnostics hold the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """Everything that is wrong with one file, not only the first error."""

    file: str
    complaints: list[Diagnostic] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LocatedValue:
    """A value of the file with its path; it records its own errors and warnings."""

    tree: Tree
    diagnostics: Diagnostics
    path: tuple[str | int, ...] = ()

    @property
    def kind(self) -> Kind:
        return self.tree.kind

    @property
    def text(self) -> str:
        return self.tree.text

    @property
    def location(self) -> Location:
        return Location(path=dotted_path(self.path), line=self.tree.line, column=self.tree.column)

    def member(self, name: str) -> LocatedValue | None:
        found = self.tree.get(name)
        return None if found is None else self._below(found, name)

    def members(self) -> Iterator[tuple[str, LocatedValue]]:
        return ((name, self._below(tree, name)) for name, tree in self.tree.pairs.items())

    def items(self) -> Iterator[LocatedValue]:
        return (self._below(tree, index) for index, tree in enumerate(self.tree.items))

    def at(self, name: str) -> LocatedValue:
        """Return a member; for an absent one its map, under the name of the member."""
        return self.member(name) or self._below(self.tree, name)

    def _below(self, tree: Tree, step: str | int) -> LocatedValue:
        return LocatedValue(tree, self.diagnostics, (*self.path, step))

    def error(self, code: str, message: str) -> InvalidValue:
        """Record an error; return what to raise where the value cannot be used."""
        self._record(code, message, "error")
        return InvalidValue(message)

    def warn(self, code: str, message: str) -> None:
        self._record(code, message, "warning")

    def _record(self, code: str, message: str, severity: Severity) -> None:
        found = complaint_at(self.diagnostics.file, self.location, code, message, severity)
        self.diagnostics.complaints.append(found)


def complaint_at(
    file: str, at: Location, code: str, message: str, severity: Severity = "error"
) -> Diagnostic:
    where = {"file": file, "line": at.line, "column": at.column, "path": at.path}
    return Diagnostic(**where, code=code, message=message, severity=severity)  # type: ignore[arg-type]


def sort_diagnostics(
    complaints: Iterable[Diagnostic], *, strict: bool = False
) -> tuple[Diagnostic, ...]:
    """Return them by position, without repetitions: at most 50 errors and 50 warnings.

    `strict` turns warnings into errors.
    """
    found = [replace(entry, severity="error") if strict else entry for entry in complaints]
    found = sorted(dict.fromkeys(found), key=Diagnostic.order)
    errors = [entry for entry in found if entry.severity == "error"][:MAX_ERRORS]
    warnings = [entry for entry in found if entry.severity == "warning"][:MAX_ERRORS]
    return tuple(sorted(errors + warnings, key=Diagnostic.order))


def known_names(text: str, names: Iterable[str]) -> str:
    """Return `(known: mongo, redis; did you mean "redis"?)`."""
    options = sorted(set(names))
    return names_with_hint(options, nearest(text, options))


def names_with_hint(names: Sequence[str], hint: str) -> str:
    question = f'; did you mean "{hint}"?' if hint else ""
    return f"(known: {', '.join(names) or 'none'}{question})"


def nearest(text: str, names: Sequence[str]) -> str:
    """Return the name most like `text` within two edits; empty when none is."""
    near = [(distance(text.lower(), name.lower()), name) for name in names]
    return min((entry for entry in near if entry[0] <= NEAR), default=(0, ""))[1]


def distance(left: str, right: str) -> int:
    """Count the edits (insert, delete, replace) between two texts; 3 stands for any more."""
    if abs(len(left) - len(right)) > NEAR:
        return NEAR + 1
    row = list(range(len(right) + 1))
    for above, char in enumerate(left):
        previous, row[0] = row[0], above + 1
        for index, other in enumerate(right, 1):
            replaced = previous + (char != other)
            previous, row[index] = row[index], min(row[index] + 1, row[index - 1] + 1, replaced)
    return min(row[-1], NEAR + 1)
