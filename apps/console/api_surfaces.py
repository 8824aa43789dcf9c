"""The API surfaces of a suite and their operations, as the page of the suite opens them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.console.domain import suite_parts
from apps.console.domain.mock_explorer import call_form
from apps.suites import api as suites
from kernel.errors import NotFound


class SurfaceNotFound(NotFound):
    code = "surface_not_found"


class OperationNotFound(NotFound):
    code = "operation_not_found"


def surface_fragment(suite_id: str, surface_id: str) -> dict[str, object]:
    """Return the operations of a surface; raise SuiteNotFound, SurfaceNotFound."""
    surface = _surface(suite_id, surface_id)
    return {
        "suite_id": suite_id,
        "surface": surface,
        "rows": [suite_parts.operation_row(each) for each in surface["operations"]],
    }


def operation_fragment(suite_id: str, surface_id: str, operation_id: str) -> dict[str, object]:
    """Return one operation; raise SuiteNotFound, SurfaceNotFound, OperationNotFound."""
    surface = _surface(suite_id, surface_id)
    for operation in surface["operations"]:
        if operation["id"] == operation_id:
            return {
                "suite_id": suite_id,
                "surface": surface,
                "operation": operation,
                "mock": operation["mockMetadata"],
                "is_mocked": "mockPath" in operation,
                "form": call_form(operation),
            }
    raise OperationNotFound("there is no operation of that id")


def _surface(suite_id: str, surface_id: str) -> Mapping[str, Any]:
    for surface in suites.get_definition(suite_id)["apiSurfaces"]:
        if surface["id"] == surface_id:
            return surface
    raise SurfaceNotFound("there is no surface of that id")
