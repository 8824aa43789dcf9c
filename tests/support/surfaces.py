"""API surfaces of suites that are written as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from surfaces import hydrate

BASE = "http://localhost:8090"


@dataclass
class Found:
    """What was hydrated: surfaces on the wire by id, and warnings as (code, file, line, column)."""

    surfaces: dict[str, Any]
    warnings: list[tuple[str, str | None, int | None, int | None]]
    details: list[str]
    typed: Any

    def operation(self, surface: str, operation: str) -> dict[str, Any]:
        listed = {each["id"]: each for each in self.surfaces[surface]["operations"]}
        found: dict[str, Any] = listed[operation]
        return found

    def ids(self, surface: str) -> list[str]:
        return [each["id"] for each in self.surfaces[surface]["operations"]]

    @property
    def only(self) -> dict[str, Any]:
        """The one operation of the one surface."""
        (surface,) = self.surfaces.values()
        (operation,) = surface["operations"]
        found: dict[str, Any] = operation
        return found

    @property
    def codes(self) -> list[str]:
        return [code for code, *_ in self.warnings]


def hydrated(files: Mapping[str, str | bytes], suite_id: str = "shop") -> Found:
    content = {
        path: text.encode() if isinstance(text, str) else text for path, text in files.items()
    }
    found = hydrate(content, suite_id=suite_id, base_url=BASE)
    return Found(
        surfaces={each["id"]: each for each in found.documents},
        warnings=[(each.code, each.file, each.line, each.column) for each in found.warnings],
        details=[each.detail for each in found.warnings],
        typed=found.surfaces,
    )
