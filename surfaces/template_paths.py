"""Paths of templates, and what they may name (reference: control-plane 18.6).

template = { text | "{{" expr "}}" } ; path = root { "." name | "/" name | "[" index | quoted "]" }
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

Step = str | int
MAX_STEPS: Final = 50
INDEX_DIGITS: Final = 9
_STEP: Final = re.compile(
    r"""(?P<dot>[./])?(?:(?P<name>[^\s.\[\]/|"'{}]+)"""
    r"""|\[\s*(?:(?P<index>\d+)|"(?P<double>[^"]*)"|'(?P<single>[^']*)')\s*\])""",
    re.ASCII,
)
_QUOTED: Final = r"""(?:"[^"]*"|'[^']*')"""
EXPRESSION: Final = re.compile(rf"""\{{\{{((?:[^"'{{}}]|{_QUOTED})*)\}}\}}""")
# the members of each root; () are those that a record has
ROOTS: Final[Mapping[str, tuple[str, ...]]] = {
    "request": ("method", "path", "query", "headers", "body", "rawBody"),
    "response": ("body",),
    "state": (),
    "suite": ("id", "title", "repository", "surfaceId", "surfaceTitle"),
    "operation": ("id", "name", "resolverUrl", "runtimeUrl"),
    "match": ("example",),
    "execution": ("id",),
}


def parse_path(text: str) -> tuple[Step, ...] | None:
    """Return the steps of `card.type`, `items[0].id` or `a/b["c"]`; None for another text."""
    steps: list[Step] = []
    at = 0
    while at < len(text) and len(steps) < MAX_STEPS:
        found = _STEP.match(text, at)
        # a name needs its dot or slash, unless it is the first; a bracket has none
        if found is None or (bool(found["dot"]) != (found["name"] is not None and at > 0)):
            return None
        steps.append(_step(found))
        at = found.end()
    return tuple(steps) if steps and at == len(text) else None


def _step(found: re.Match[str]) -> Step:
    if found["index"] is not None:
        digits = found["index"]
        return int(digits) if len(digits) <= INDEX_DIGITS else 10**INDEX_DIGITS
    for group in ("name", "double", "single"):
        if found[group] is not None:
            return found[group]
    raise AssertionError("a step has one of these groups")
