"""The order of a repository's tags, and the version among them (reference: control-plane 5.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

LATEST: Final = "latest"
_SEPARATORS: Final = re.compile(r"[._-]")
_RUNS: Final = re.compile(r"(\d+)")
_LETTERS, _END, _NUMBER = 0, 1, 2  # `1.0-rc1` is below `1.0`, and this below `1.0.1`
_Part = tuple[int, int, str]


def sorted_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return each tag once: `latest` first, then the others, the highest version first."""
    found = set(tags)
    others = sorted(found - {LATEST}, key=lambda tag: (_version_key(tag), tag), reverse=True)
    return ((LATEST,) if LATEST in found else ()) + tuple(others)


def chosen_version(tags: Sequence[str], wanted: str = "") -> str:
    """Return `wanted` if it is a tag, else the first that is not `latest`, else the first.

    `tags` are sorted. Without tags, return "".
    """
    if wanted and wanted in tags:
        return wanted
    return next((tag for tag in tags if tag != LATEST), next(iter(tags), ""))


def _version_key(tag: str) -> list[_Part]:
    """Return the parts as comparable values: numbers by value, above the end, above letters.

    A part of letters and digits (`rc10`, `v2`) is compared run by run.
    """
    parts: list[_Part] = []
    for part in _SEPARATORS.split(tag):
        parts += [_part(run) for run in _RUNS.split(part) if run]
    if len(parts) > 1 and parts[0] == (_LETTERS, 0, "v"):  # v1.2
        parts = parts[1:]
    return [*parts, (_END, 0, "")]


def _part(run: str) -> _Part:
    return (_NUMBER, int(run), "") if run.isascii() and run.isdigit() else (_LETTERS, 0, run)
