"""The index of repositories, and what a synchronization reports."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from kernel.errors import PlatformError

IN_FLIGHT: Final = 16  # requests to a registry at once


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
    """Whether a registry answers and lets us in; `code` is "" when it does."""

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
