"""What a reader looks for in the catalog, and how many packages each further choice would show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from apps.catalog.domain.packages import CatalogEntry, PackageDocument

CHOICES: Final = ("kind", "provider", "owner", "module")  # one value of each
MARKS: Final = ("runnable", "inspectable", "starred")  # each is there or not


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFilter:
    """Of each field that is set, a package must have the value; `words` is in one of its texts."""

    kind: str = ""
    provider: str = ""
    owner: str = ""
    module: str = ""
    runnable: bool = False
    inspectable: bool = False
    starred: bool = False
    words: str = ""

    def accepts(self, entry: CatalogEntry, favorites: Collection[str]) -> bool:
        values = values_of(entry)
        chosen = {name: getattr(self, name) for name in CHOICES}
        if any(value and value not in values[name] for name, value in chosen.items()):
            return False
        marks = marks_of(entry, favorites)
        return all(mark in marks for mark in MARKS if getattr(self, mark)) and self._finds(entry)

    def _finds(self, entry: CatalogEntry) -> bool:
        package, wanted = entry["package"], self.words.casefold()
        texts = (package["title"], package["repository"], package["description"])
        return any(wanted in text.casefold() for text in (*texts, *package["modules"]))


def relevance(package: PackageDocument, words: str) -> int:
    """Return how well a name fits: 3 the whole, 2 its beginning, 1 a part, 0 no name does.

    Names are the title, the repository with and without its last part, and the modules.
    """
    wanted, repository = words.casefold(), package["repository"].casefold()
    names = [package["title"].casefold(), repository, repository.rpartition("/")[2]]
    names += [module.casefold() for module in package["modules"]]
    if wanted in names:
        return 3
    if any(name.startswith(wanted) for name in names):
        return 2
    return int(any(wanted in name for name in names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """The values of a field, the most frequent first, with the packages that each would leave."""

    name: str
    counts: tuple[tuple[str, int], ...]


def values_of(entry: CatalogEntry) -> Mapping[str, Sequence[str]]:
    package = entry["package"]
    return {
        "kind": (package["kind"],),
        "provider": (package["provider"],),
        "owner": (package["owner"],),
        "module": package["modules"],
    }


def marks_of(entry: CatalogEntry, favorites: Collection[str]) -> frozenset[str]:
    package = entry["package"]
    found = {
        "runnable": entry["launchable"],
        "inspectable": package["inspectable"],
        "starred": package["id"] in favorites,
    }
    return frozenset(mark for mark, is_set in found.items() if is_set)


def facets(
    entries: Iterable[CatalogEntry], wanted: PackageFilter, favorites: Collection[str]
) -> tuple[Facet, ...]:
    """Return a facet for each field of the filter.

    The counts of a field heed every other field, so they say what a click on its value shows. A
    value that is chosen is there even if nothing has it.
    """
    everything = list(entries)
    found = []
    for name in CHOICES:
        others = _with(wanted, {name: ""})
        counts = Counter(
            value
            for entry in everything
            if others.accepts(entry, favorites)
            for value in values_of(entry)[name]
        )
        if chosen := getattr(wanted, name):
            counts.setdefault(chosen, 0)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0].casefold()))
        found.append(Facet(name=name, counts=tuple(ordered)))
    for mark in MARKS:
        others = _with(wanted, {mark: True})
        count = sum(others.accepts(entry, favorites) for entry in everything)
        found.append(Facet(name=mark, counts=(("true", count),)))
    return tuple(found)


def _with(wanted: PackageFilter, changed: Mapping[str, Any]) -> PackageFilter:
    return replace(wanted, **changed)
