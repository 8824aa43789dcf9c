"""Keys that prune leaves alone (reference: sync-stack 4.7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase


def protected(keys: Iterable[str], globs: Sequence[str]) -> frozenset[str]:
    """Those of `keys` that a glob names: `*` is any text, `?` one character, case counts.

    Globs are written for dot-form keys. Where the sink's keys are flat the dots of a glob stand
    for underscores as well: rather one key too many is kept.
    """
    patterns = {form for glob in globs for form in (_plain(glob), _plain(glob).replace(".", "_"))}
    return frozenset(key for key in keys if any(fnmatchcase(key, pattern) for pattern in patterns))


def _plain(glob: str) -> str:
    """Brackets are no classes here: keys of lists may hold them."""
    return glob.replace("[", "[[]")
