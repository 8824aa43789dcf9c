"""Repositories of registries: their tags, what a synchronization reports, and why one fails."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from kernel.errors import PlatformError

IN_FLIGHT: Final = 16  # requests to a registry at once
LATEST: Final = "latest"
_SEPARATORS: Final = re.compile(r"[._-]")
_RUNS: Final = re.compile(r"[0-9]+|[^0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A repository as the last synchronization of its registry found it.

    `tags` are sorted; `version` is the tag that stands for it and `digest` that of its manifest, ""
    where unknown. `pulled`: the content of `digest` is in the store. `suite_id` is assigned once.
    `error_code` says why the last synchronization could not read or pull it.
    """

    registry_id: str
    host: str
    path: str
    tags: tuple[str, ...]
    version: str
    digest: str
    artifact_type: str
    media_types: tuple[str, ...]
    pulled: bool
    suite_id: str
    error_code: str
    error_detail: str
    seen_at: datetime

    @property
    def repository(self) -> str:
        return f"{self.host}/{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryError:
    """`repository` is "" where the registry itself is at fault."""

    repository: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    packages: int
    duration_ms: int
    errors: tuple[RepositoryError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryWarning:
    """A registry whose last synchronization failed."""

    registry_id: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionReport:
    """Whether a registry answers and accepts us; `code` is "" when it does."""

    reachable: bool
    code: str
    detail: str
    duration_ms: int


class SyncInProgress(PlatformError):
    code = "sync_in_progress"


class RegistryUnreachable(PlatformError):
    """A registry cannot be used now; `reason` is a stable code."""

    code = "registry_unreachable"

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail, members={"reason": reason})
        self.reason = reason


class RegistryFailure(Exception):
    """A registry cannot be used; `code` is stable, `status` what it answered or 0."""

    def __init__(self, code: str, detail: str, *, status: int = 0) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.status = status


class CatalogRefused(RegistryFailure):
    """The registry does not list its repositories."""


def sorted_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return `latest` first, then descending by version; a pre-release below its release.

    (reference: control-plane 5.1)
    """
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
