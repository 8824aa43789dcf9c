"""`WWW-Authenticate` and `Link` headers of registries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_MAX_HEADER: Final = 4096
_SCHEME: Final = re.compile(r"\s*([A-Za-z]+)(?:\s+|\Z)")
_PARAMETER: Final = re.compile(
    r'\s*([a-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))\s*(?:,|\Z)', re.I
)
_NEXT: Final = re.compile(r'<([^<>]*)>\s*;[^,]*\brel\s*=\s*"?next"?', re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """How a registry wants to be signed in to: `basic`, `bearer` or something else."""

    scheme: str
    parameters: Mapping[str, str] = field(default_factory=dict)


def read_challenge(header: str) -> Challenge | None:
    """Return the first challenge, or None for a header that has none."""
    found = _SCHEME.match(header[:_MAX_HEADER])
    if found is None:
        return None
    rest, parameters = header[found.end() : _MAX_HEADER], dict[str, str]()
    while match := _PARAMETER.match(rest):
        quoted = match[2]
        value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else match[3]
        parameters.setdefault(match[1].lower(), value)
        rest = rest[match.end() :]
    return Challenge(scheme=found[1].lower(), parameters=parameters)


def next_link(header: str) -> str:
    """Return the target of `Link: …; rel="next"`, or ""."""
    found = _NEXT.search(header[:_MAX_HEADER])
    return found[1] if found else ""
