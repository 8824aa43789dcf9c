"""The order of tags, and the tag that stands for a repository (reference: control-plane 5.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

LATEST: Final = "latest"
_SEPARATORS: Final = re.compile(r"[._-]")
_RUNS: Final = re.compile(r"[0-9]+|[^0-9]+")


def sorted_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return `latest` first, then descending by version; a pre-release below its release."""
    return tuple(sorted(set(tags), key=lambda tag: (tag == LATEST, *_key(tag)), reverse=True))


def chosen_tag(tags: Sequence[str]) -> str:
    """Return the first sorted tag that is not `latest`, else the first, else ""."""
    return next((tag for tag in tags if tag != LATEST), next(iter(tags), ""))


def _key(tag: str) -> tuple[tuple[tuple[int, int, str], ...], str]:
    parts: list[tuple[int, int, str]] = []
    for part in _SEPARATORS.split(tag):
        parts += [
            (2, int(run), "") if run.isdigit() else (0, 0, run) for run in _RUNS.findall(part)
        ]
    return (*parts, (1, 0, "")), tag
