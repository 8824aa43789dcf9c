"""A rule with what its repository's `partita.json` says (reference: sync-stack 4.9)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from sync_stack.core.bundle.rules import Rule
from sync_stack.core.overrides import FILE_NAME, MAX_BYTES, apply_overrides
from sync_stack.orchestrator.execution.attempt import Attempt
from sync_stack.repositories import GitError, Source
from sync_stack.repositories.entry import readable

log: Final = logging.getLogger(__name__)
_PERMANENT: Final = ("path_is_symlink", "path_is_submodule", "lfs_pointer", "file_too_large")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRule:
    """`commit`: where the file was read; empty when the rule allows no overrides."""

    rule: Rule
    commit: str = ""
    warnings: tuple[str, ...] = ()


def overrides_at(attempt: Attempt, source: Source, rule: Rule, commit: str) -> OwnRule:
    """Read at the head of the default branch, never at the pushed ref. Raises GitError."""
    if rule.allow_overrides is False or not commit:
        return OwnRule(rule=rule)
    try:
        found = apply_overrides(rule, _content(attempt, source, commit))
    except GitError as error:
        if error.code not in _PERMANENT:
            raise
        return _with_warning(rule, commit, f"{FILE_NAME} is not used: {error.detail}")
    if found.ignored:
        log.info("%s of %s: ignored %s", FILE_NAME, source.url, ", ".join(found.ignored))
    return _with_warning(found.rule, commit, found.warning)


def _content(attempt: Attempt, source: Source, commit: str) -> bytes | None:
    entry = readable(attempt.tree(source, commit), FILE_NAME)
    if entry is None:
        return None
    return attempt.ports.repositories.content(source, entry, max_bytes=MAX_BYTES)


def _with_warning(rule: Rule, commit: str, warning: str) -> OwnRule:
    return OwnRule(rule=rule, commit=commit, warnings=(warning[:500],) if warning else ())
