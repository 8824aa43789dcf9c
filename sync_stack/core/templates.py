"""Templates of destinations: names in braces are replaced, nothing else is a language."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

NAMES: Final = ("env", "tenant", "owner", "repo", "branch", "platform", "datasource")
_PART: Final = re.compile(r"\{\{|\}\}|\{([a-z]+)\}|[^{}]+|[{}]")


class BadTemplate(ValueError):
    """A brace that is neither doubled nor around a known name; the message says which."""


def names_in(template: str) -> frozenset[str]:
    """Return the names that a template uses; raise BadTemplate."""
    return frozenset(match[1] for match in _parts(template) if match[1])


def render(template: str, values: Mapping[str, str]) -> str:
    """Every name replaced once; braces in values stay. Raises BadTemplate, KeyError."""
    return "".join(
        values[match[1]] if match[1] else {"{{": "{", "}}": "}"}.get(match[0], match[0])
        for match in _parts(template)
    )


def _parts(template: str) -> list[re.Match[str]]:
    parts = list(_PART.finditer(template))
    for part in parts:
        if part[1] and part[1] not in NAMES:
            raise BadTemplate(f"{part[0]} is unknown {_known_names()}")
        if part[0] in ("{", "}"):
            shown = template[part.start() : part.start() + 40]
            raise BadTemplate(
                f'"{shown}": a brace stands around a name or is doubled {_known_names()}'
            )
    return parts


def _known_names() -> str:
    return "(known: " + ", ".join(f"{{{name}}}" for name in NAMES) + ")"
