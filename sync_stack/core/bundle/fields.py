"""Tables of fields: what a map of the bundle may hold, and the reader that goes by them.

The same tables make the reference in docs/sync-bundle.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from readers.tree import Kind
from sync_stack.core.bundle.diagnostics import Diagnostics, LocatedValue, known_names, nearest
from sync_stack.core.bundle.values import INVALID, Value, expect


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One member of a map.

    `into`: the name in the model, where it differs; `default`: what the reference says, where the
    model's own default does not say it.
    """

    name: str
    value: Value
    words: str = ""
    aliases: tuple[str, ...] = ()
    required: bool = False
    into: str = ""
    default: str = ""
    no_effect: bool = False

    @property
    def attribute(self) -> str:
        return self.into or self.name

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The fields of one kind of map; `model` is the dataclass that has their defaults."""

    title: str
    fields: tuple[Field, ...]
    model: type | None = None

    def default_of(self, entry: Field) -> Any:
        """The model's default; MISSING where there is none."""
        for known in fields(self.model) if self.model else ():
            if known.name == entry.attribute:
                made = known.default_factory is not MISSING
                return known.default_factory() if made else known.default  # type: ignore[misc]
        return MISSING


@dataclass(slots=True, kw_only=True)
class ParsedFields:
    """What a map holds: values by the model's names, and where each stands."""

    spot: LocatedValue
    values: dict[str, Any] = field(default_factory=dict)
    spots: dict[str, LocatedValue] = field(default_factory=dict)
    complete: bool = True  # no required field is absent or wrong

    def at(self, name: str) -> LocatedValue:
        return self.spots.get(name) or self.spot.at(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    def take(self, name: str, default: Any = None) -> Any:
        return self.values.pop(name, default)

    def has(self, name: str) -> bool:
        """True when it was written, right or wrong."""
        return name in self.spots


def read_table(table: Table, spot: LocatedValue, findings: Diagnostics) -> ParsedFields:
    """Every field of a map; wrong ones are complained about and left out."""
    given = ParsedFields(spot=spot)
    if not expect(spot, findings, "a map", Kind.MAP):
        given.complete = False
        return given
    for entry in table.fields:
        _read_field(entry, given, findings)
    _complain_of_unknown(table, spot, findings)
    return given


def _read_field(entry: Field, given: ParsedFields, findings: Diagnostics) -> None:
    written = list(_written(entry, given.spot))
    if not written:
        if entry.required:
            given.complete = False
            findings.error(given.spot.at(entry.name), "missing_field", f"{entry.name} is required")
        return
    if len(written) > 1:
        names = " and ".join(name for name, _spot in written)
        findings.error(written[1][1], "mutually_exclusive", f"{names} are one field")
    _name, spot = written[0]
    if entry.no_effect:
        findings.warn(spot, "no_effect", f"{entry.name} has no effect")
        return
    value = entry.value.read(spot, findings)
    given.spots[entry.attribute] = spot
    if value is not INVALID:
        given.values[entry.attribute] = value
    elif entry.required:
        given.complete = False


def _written(entry: Field, spot: LocatedValue) -> Iterator[tuple[str, LocatedValue]]:
    for name in entry.names:
        if found := spot.member(name):
            yield name, found


def _complain_of_unknown(table: Table, spot: LocatedValue, findings: Diagnostics) -> None:
    known = [name for entry in table.fields for name in entry.names]
    for name, member in spot.members():
        if name not in known:
            unknown_field(name, member, known, findings)


def unknown_field(name: str, spot: LocatedValue, known: list[str], findings: Diagnostics) -> None:
    """An error when it looks like a slip of the pen, else a warning."""
    message = f'unknown field "{name[:60]}"'
    if hint := nearest(name, known):
        findings.error(spot, "unknown_field", f'{message}; did you mean "{hint}"?')
    else:
        findings.warn(spot, "unknown_field", f"{message} {known_names(name, known)}")


@dataclass(frozen=True, slots=True)
class Group:
    """A map with a table of its own, read into `ParsedFields`."""

    table: Table

    @property
    def words(self) -> str:
        return f"map, see {self.table.title}"

    def read(self, spot: LocatedValue, findings: Diagnostics) -> Any:
        given = read_table(self.table, spot, findings)
        return given if given.complete else INVALID
