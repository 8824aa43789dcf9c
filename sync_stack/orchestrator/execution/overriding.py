"""A rule with what its repository's `partita.json` says (contract 4.9)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from kernel.reading.tree import Tree
from sync_stack.core.bundle.model import Rule
from sync_stack.core.overrides import FILE_NAME, MAX_BYTES, BadOverrides, apply_overrides
from sync_stack.core.shaping import ShapingError
from sync_stack.formats import formats
from sync_stack.orchestrator.execution.attempt import Attempt
from sync_stack.repositories import GitError, Source

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
        document = _document(attempt, source, commit)
        if document is None:
            return OwnRule(rule=rule, commit=commit)
        found = apply_overrides(rule, document)
    except (BadOverrides, ShapingError) as error:
        return _refused(rule, commit, str(error))
    except GitError as error:
        if error.code not in _PERMANENT:
            raise
        return _refused(rule, commit, error.detail)
    if found.ignored:
        log.info("%s of %s: ignored %s", FILE_NAME, source.url, ", ".join(found.ignored))
    return OwnRule(rule=found.rule, commit=commit)


def _document(attempt: Attempt, source: Source, commit: str) -> Tree | None:
    repositories = attempt.ports.repositories
    repositories.fetch(source, commit)
    content = repositories.read(source, commit, FILE_NAME, max_bytes=MAX_BYTES)
    return None if content is None else formats["json"].parse(content, file=FILE_NAME)


def _refused(rule: Rule, commit: str, reason: str) -> OwnRule:
    """The central rule counts, and the task says so."""
    warning = f"{FILE_NAME} is not used: {reason}"
    return OwnRule(rule=rule, commit=commit, warnings=(warning[:500],))
