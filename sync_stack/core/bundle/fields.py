"""Fields of the bundle: declared beside the model's attributes, read from maps of the file.

A list of one-key maps holds entries, which other fields name. The declarations also make the
reference in docs/sync-bundle.md.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import MISSING, dataclass, field
from typing import Any, Final, Generic, TypeVar

from readers.tree import Kind
from sync_stack.core.bundle.diagnostics import InvalidValue, LocatedValue, known_names, nearest
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.bundle.values import FLAG, TAG_PATTERN, ValueType, expect

Built = TypeVar("Built")
REQUIRED: Final = MISSING
_METADATA: Final = "bundle_field"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleField:
    """One member of a map, and the attribute of the model that holds it.

    `shown`: the default in the reference, where the model's own default does not say it.
    `spread`: the members of its map are fields of the model themselves.
    """

    name: str = ""
    attribute: str = ""
    type: ValueType
    default: Any = None
    description: str = ""
    shown: str = ""
    aliases: str = ""
    no_effect: bool = False
    spread: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases.split())

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED


def option(
    type_: ValueType,
    default: Any = REQUIRED,
    description: str = "",
    *,
    hidden: bool = False,
    **more: Any,
) -> Any:
    """Declare an attribute that the file may set; `hidden`: repr leaves it out."""
    made = {"default_factory": dict} if default is dict else {"default": default}
    shown_default = {} if default is dict else default
    declared = BundleField(type=type_, default=shown_default, description=description, **more)
    return dataclasses.field(metadata={_METADATA: declared}, repr=not hidden, **made)


def input_only(type_: ValueType, description: str = "", *, shown: str = "–", **more: Any) -> Any:
    """Declare a field of the file that the model does not hold; annotate it as a ClassVar."""
    declared = BundleField(type=type_, description=description, shown=shown, **more)
    return dataclasses.field(metadata={_METADATA: declared})


def no_effect(type_: ValueType = FLAG) -> Any:
    return input_only(type_, "No effect", no_effect=True)


@dataclass(frozen=True, slots=True)
class FieldTable:
    """The fields of one kind of map; the models declare them, the first one is built."""

    title: str
    fields: tuple[BundleField, ...]
    model: Any = None


def table_of(title: str, *models: Any) -> FieldTable:
    declared = (
        dataclasses.replace(entry, name=entry.name or name, attribute=name)
        for model in models
        for name, attribute in model.__dataclass_fields__.items()  # in order, ClassVars included
        if (entry := attribute.metadata.get(_METADATA))
    )
    return FieldTable(title, tuple(declared), models[0])


@dataclass(slots=True, kw_only=True)
class ParsedFields:
    """The fields of a map: values by attributes of the model, and where each was written."""

    located: LocatedValue
    values: dict[str, Any]
    written: dict[str, LocatedValue]
    model: Any = None
    complete: bool = True  # no required field is absent or wrong

    def at(self, attribute: str) -> LocatedValue:
        return self.written.get(attribute) or self.located.at(attribute)

    def get(self, attribute: str, default: Any = None) -> Any:
        return self.values.get(attribute, default)

    def take(self, attribute: str, default: Any = None) -> Any:
        return self.values.pop(attribute, default)

    def has(self, attribute: str) -> bool:
        """True when the field was written, right or wrong."""
        return attribute in self.written

    def needs(self, one: str, other: str) -> None:
        if self.has(one) and not self.has(other):
            self.at(other).error("missing_field", f"{one} needs {other}")

    def together(self, one: str, other: str) -> None:
        """Record an error when only one of them is written."""
        self.needs(one, other)
        self.needs(other, one)

    def exclude(self, *names: str) -> None:
        """Record an error when more than one of these is written."""
        written = [name for name in names if self.has(name)]
        if len(written) > 1:
            message = f"{' and '.join(written)} exclude each other"
            self.at(written[1]).error("mutually_exclusive", message)

    def warn_unverified(self, name: str, *, risky: bool) -> None:
        if self.get(name) is risky:
            self.at(name).warn("risky_setting", "certificates are not verified")

    def build(self, model: Any = None, manager: str = "", **more: Any) -> Any:
        """Return an instance of the model; secret references without a manager get this one."""
        model = model or self.model
        attributes = {each.name for each in dataclasses.fields(model)}
        values = {name: each for name, each in self.values.items() if name in attributes}
        for name, each in values.items():
            if isinstance(each, ParsedFields):
                values[name] = each.build()
            elif isinstance(each, SecretRef) and each.is_managed:
                values[name] = dataclasses.replace(each, manager=manager)
        return model(**values | more)


def read_fields(table: FieldTable, located: LocatedValue) -> ParsedFields:
    """Read every field of a map; wrong ones are recorded and left out."""
    parsed = ParsedFields(located=located, values={}, written={}, model=table.model)
    try:
        expect(located, "a map", Kind.MAP)
    except InvalidValue:
        parsed.complete = False
        return parsed
    for entry in table.fields:
        try:
            _read_field(entry, parsed)
        except InvalidValue:
            parsed.complete = parsed.complete and not entry.is_required
    known = [name for entry in table.fields for name in entry.names]
    for name, member in located.members():
        if name not in known:
            _record_unknown(name, member, known)
    return parsed


def _read_field(entry: BundleField, parsed: ParsedFields) -> None:
    written = [name for name in entry.names if parsed.located.member(name)]
    if not written:
        if entry.is_required:
            raise parsed.located.at(entry.name).error("missing_field", f"{entry.name} is required")
        return
    if len(written) > 1:
        message = f"{' and '.join(written)} are one field"
        parsed.located.at(written[1]).error("mutually_exclusive", message)
    located = parsed.located.at(written[0])
    if entry.no_effect:
        located.warn("no_effect", f"{entry.name} has no effect")
        return
    parsed.written[entry.attribute] = located
    value = entry.type.read(located)
    if entry.spread:
        parsed.values |= value.values
        parsed.written |= value.written
    elif value is not None:
        parsed.values[entry.attribute] = value


def _record_unknown(name: str, located: LocatedValue, known: list[str]) -> None:
    """Record an error when the name looks like a typing error, otherwise a warning."""
    message = f'unknown field "{name[:60]}"'
    if hint := nearest(name, known):
        located.error("unknown_field", f'{message}; did you mean "{hint}"?')
    else:
        located.warn("unknown_field", f"{message} {known_names(name, known)}")


def group(table: FieldTable) -> ValueType:
    """Return the type of a map that has a table of its own."""

    def read(located: LocatedValue) -> ParsedFields:
        parsed = read_fields(table, located)
        if not parsed.complete:
            raise InvalidValue(table.title)
        return parsed

    return ValueType(f"map, see {table.title}", read)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleEntries(Generic[Built]):
    """The entries of one list by name. `built` leaves out entries with errors."""

    what: str  # of one entry, in words
    kinds: dict[str, str] = field(default_factory=dict)  # name -> kind
    tags: dict[str, list[str]] = field(default_factory=dict)  # tag -> names
    built: dict[str, Built] = field(default_factory=dict)

    def add(self, kind: str, located: LocatedValue) -> str:
        """Return the name of an entry; record an error when it occurs a second time."""
        member = located.member("tag")
        tag = member.text if member and member.kind is Kind.STRING else ""
        tag = tag if re.fullmatch(TAG_PATTERN, tag) else ""
        name = f"{kind}-{tag}" if tag else kind
        if name in self.kinds:
            message = f'a second {self.what} "{name}": give it a tag'
            located.error("duplicate_name", message)
            return name
        self.kinds[name] = kind
        if tag:
            self.tags.setdefault(tag, []).append(name)
        return name

    def resolve(self, located: LocatedValue, *, quiet: bool = False) -> str:
        """Return the name that a text means; empty after an error. `quiet`: a tag is expected."""
        text = located.text
        if text in self.kinds:
            return text
        tagged = self.tags.get(text, [])
        if len(tagged) == 1:
            if not quiet:
                message = f'"{text}" is a tag; the name of the {self.what} is "{tagged[0]}"'
                located.warn("reference_by_tag", message)
            return tagged[0]
        message = f'unknown {self.what} "{text[:60]}" {known_names(text, self.kinds)}'
        if tagged:
            message = f'"{text[:60]}" is the tag of several: {", ".join(tagged)}'
        located.error("unknown_reference", message)
        return ""


def read_entries(
    what: str,
    located: LocatedValue | None,
    known: Collection[str],
    build: Callable[[str, str, LocatedValue], Built | None],
    unsupported: Collection[str] = (),
) -> BundleEntries[Built]:
    """Build every entry of a known kind; an item with several kinds is several."""
    entries: BundleEntries[Built] = BundleEntries(what=what)
    for item in located.items() if located else ():
        for kind, member in _members(item, known):
            if kind in known:
                name = entries.add(kind, member)
                if built := build(kind, name, member):
                    entries.built[name] = built
            elif kind in unsupported:
                entries.add(kind, member)
                message = f'this build cannot write to "{kind}": rules that name it are disabled'
                member.warn("unsupported_kind", message)
            else:
                message = f'unknown kind "{kind[:60]}" {known_names(kind, known)}'
                member.error("unknown_kind", message)
    return entries


def _members(item: LocatedValue, known: Collection[str]) -> Iterator[tuple[str, LocatedValue]]:
    try:
        expect(item, "a map with one kind", Kind.MAP)
    except InvalidValue:
        return iter(())
    if not item.tree.pairs:
        item.error("missing_field", f"a kind is required {known_names('', known)}")
    return item.members()


def manager_of(parsed: ParsedFields, managers: BundleEntries[Built]) -> str:
    """Return the secret manager that an entry names, else the only one; empty without."""
    if parsed.has("secret_manager"):
        located = parsed.at("secret_manager")
        return managers.resolve(located) if located.kind is Kind.STRING else ""
    if len(managers.kinds) == 1:
        return next(iter(managers.kinds))
    message = "no secret manager is defined"
    if managers.kinds:
        message = "several secret managers are defined: name one in secret_manager"
    for name, value in parsed.values.items():
        if isinstance(value, SecretRef) and value.is_managed:
            parsed.at(name).error("bad_secret", message)
    return ""
