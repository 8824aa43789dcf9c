"""The words of the catalog's pages: facets, statuses, merits, versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apps.catalog.api import CatalogEntry

POINTS: Final = 20  # for each merit (reference: control-plane 5.1)
FACETS: Final = {
    "kind": "Kind",
    "provider": "Provider",
    "owner": "Owner",
    "module": "Module",
    "only": "Only",
}
_CHOICES: Final = {
    ("kind", "suite"): "suites",
    ("kind", "stdlib"): "modules",
    ("runnable", "true"): "runnable",
    ("inspectable", "true"): "inspectable",
    ("starred", "true"): "my favorites",
}
_STATUSES: Final = {
    "Official": "A module that comes with Partita.",
    "Verified": "Its content was pulled, and it matches its digest.",
    "Installed": "A suite of the workspace.",
    "Listed": "A registry offers it. Its content is not here yet.",
}
_MERITS: Final = {
    "readme": ("README", "a README.md whose first line is a title"),
    "description": ("Description", "a second line in README.md, or a description in metadata.yaml"),
    "profile": ("Profile", "a profile that it can be launched with"),
    "contract": ("Contract", "a contract file in api/"),
    "topology": ("Topology", "a suite.star that resolves"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Merit:
    """One part of the score; `wanted` says what earns the points."""

    label: str
    wanted: str
    has: bool
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallableVersion:
    """A tag with the command that gets it; `digest` only of the version that is known."""

    tag: str
    digest: str
    reference: str
    is_shown: bool


def choice_text(facet: str, value: str) -> str:
    return _CHOICES.get((facet, value), value)


def status_text(status: str) -> str:
    return _STATUSES[status]


def merits(entry: CatalogEntry) -> Sequence[Merit]:
    """Return what the score counts, nothing for a package whose content is not known."""
    return [
        Merit(label=label, wanted=wanted, has=entry["merits"][name], points=POINTS)
        for name, (label, wanted) in _MERITS.items()
        if name in entry["merits"]
    ]


def versions(package: Mapping[str, Any]) -> Sequence[InstallableVersion]:
    return [
        InstallableVersion(
            tag=tag,
            digest=package.get("digest", "") if tag == package["version"] else "",
            reference=f"{package['repository']}:{tag}",
            is_shown=tag == package["version"],
        )
        for tag in package["tags"]
    ]
