"""Lists of one-key maps: which entries there are, what they are called, who refers to them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from readers.tree import Kind
from sync_stack.core.bundle.diagnostics import Diagnostics, LocatedValue, known_names
from sync_stack.core.bundle.fields import ParsedFields
from sync_stack.core.bundle.secret_refs import SecretRef
from sync_stack.core.bundle.values import TAG, expect

_TAG: Final = re.compile(TAG.pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a list, before its fields are read."""

    kind: str
    tag: str
    spot: LocatedValue

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.tag}" if self.tag else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What the entries of one list are called."""

    what: str  # of one entry, in words
    kinds: dict[str, str] = field(default_factory=dict)  # name -> kind
    tags: dict[str, list[str]] = field(default_factory=dict)  # tag -> names

    def resolve(self, spot: LocatedValue, findings: Diagnostics, *, quiet: bool = False) -> str:
        """The name that a text means; empty after an error. `quiet`: a tag is what is expected."""
        text = spot.text
        if text in self.kinds:
            return text
        tagged = self.tags.get(text, [])
        if len(tagged) == 1:
            if not quiet:
                message = f'"{text}" is a tag; the name of the {self.what} is "{tagged[0]}"'
                findings.warn(spot, "reference_by_tag", message)
            return tagged[0]
        if tagged:
            known = f"is the tag of several: {', '.join(tagged)}"
            findings.error(spot, "unknown_reference", f'"{text[:60]}" {known}')
            return ""
        known = known_names(text, self.kinds)
        findings.error(spot, "unknown_reference", f'unknown {self.what} "{text[:60]}" {known}')
        return ""


def names_of(what: str, entries: Iterable[Entry], findings: Diagnostics) -> Names:
    """Complains of a name that occurs twice."""
    names = Names(what=what)
    for entry in entries:
        if entry.name in names.kinds:
            message = f'a second {what} "{entry.name}": give it a tag'
            findings.error(entry.spot, "duplicate_name", message)
            continue
        names.kinds[entry.name] = entry.kind
        if entry.tag:
            names.tags.setdefault(entry.tag, []).append(entry.name)
    return names


def entries_of(
    spot: LocatedValue | None,
    known: Collection[str],
    unsupported: Collection[str],
    findings: Diagnostics,
) -> list[Entry]:
    """Every entry of a known or unsupported kind; an item with several kinds is several."""
    items = spot.items() if spot else ()
    return [entry for item in items for entry in _of_item(item, known, unsupported, findings)]


def _of_item(
    item: LocatedValue, known: Collection[str], unsupported: Collection[str], findings: Diagnostics
) -> Iterator[Entry]:
    if not expect(item, findings, "a map with one kind", Kind.MAP):
        return
    if not item.tree.pairs:
        findings.error(item, "missing_field", f"a kind is required {known_names('', known)}")
    for kind, spot in item.members():
        if kind in unsupported:
            message = f'this build cannot write to "{kind}": rules that name it are disabled'
            findings.warn(spot, "unsupported_kind", message)
        elif kind not in known:
            message = f'unknown kind "{kind[:60]}" {known_names(kind, known)}'
            findings.error(spot, "unknown_kind", message)
            continue
        yield Entry(kind=kind, tag=_tag_of(spot), spot=spot)


def _tag_of(spot: LocatedValue) -> str:
    tag = spot.member("tag")
    fits = tag is not None and tag.kind is Kind.STRING and _TAG.fullmatch(tag.text)
    return tag.text if tag is not None and fits else ""


def manager_of(given: ParsedFields, managers: Names, findings: Diagnostics) -> str:
    """The secret manager of an entry: the one it names, else the only one; empty without."""
    if given.has("secret_manager"):
        spot = given.at("secret_manager")
        return managers.resolve(spot, findings) if spot.kind is Kind.STRING else ""
    if len(managers.kinds) == 1:
        return next(iter(managers.kinds))
    for spot in _managed(given):
        many = "several secret managers are defined: name one in secret_manager"
        findings.error(
            spot, "bad_secret", many if managers.kinds else "no secret manager is defined"
        )
    return ""


def _managed(given: ParsedFields) -> Iterator[LocatedValue]:
    for name, value in given.values.items():
        if isinstance(value, SecretRef) and value.is_managed:
            yield given.at(name)
        elif isinstance(value, ParsedFields):
            yield from _managed(value)
