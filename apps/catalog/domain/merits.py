"""What the score of a suite counts (reference: control-plane 5.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

POINTS: Final = 20
README: Final = "readme"
DESCRIPTION: Final = "description"
PROFILE: Final = "profile"
CONTRACT: Final = "contract"
TOPOLOGY: Final = "topology"


def merits_of(definition: Mapping[str, Any]) -> dict[str, bool]:
    """Return each merit with whether the suite has it; POINTS for each make the score."""
    files = definition["sourceFiles"]
    readme = next((file["content"] for file in files if file["path"] == "README.md"), "")
    first = next((line.strip() for line in readme.splitlines() if line.strip()), "")
    return {
        README: bool(first.lstrip("#").strip()),
        DESCRIPTION: bool(definition["description"]),
        PROFILE: bool(definition["profiles"]),
        CONTRACT: any(file["path"].startswith("api/") for file in files),
        TOPOLOGY: "topology" in definition,
    }
