"""Lists of one-key maps: the entries by name, and the references to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from readers.tree import Kind
from sync_stack.core.bundle.diagnostics import InvalidValue, LocatedValue, known_names
from sync_stack.core.bundle.fields import ParsedFields
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.bundle.values import TAG_PATTERN, expect

Built = TypeVar("Built")


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
