"""Reading members of a payload, with errors that name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from sync_stack.core.bundle.platforms import Platform
from sync_stack.core.events import BadPayload, checked_commit, clone_url, is_zero

Payload = Mapping[str, Any]


def repository_fields(platform: Platform, repo: str, *, path: str = "") -> dict[str, Any]:
    """Return what all events of a delivery share; `path`: the clone path if not `repo`."""
    return {
        "platform": platform.name,
        "repo": repo,
        "clone_url": clone_url(platform.endpoint, path or repo, platform.protocol),
    }


def found(payload: Payload, *path: str) -> Any:
    """The value at the path; None when a member on the way is missing or no object."""
    value: Any = payload
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def text(payload: Payload, *path: str) -> str:
    """Raises BadPayload unless it is a text with something in it."""
    value = found(payload, *path)
    if not isinstance(value, str) or not value:
        raise BadPayload(f"{'.'.join(path)} must be a text")
    return value


def optional_text(payload: Payload, *path: str) -> str:
    value = found(payload, *path)
    return value if isinstance(value, str) else ""


def number(payload: Payload, *path: str) -> int:
    """A positive whole number. Raises BadPayload."""
    value = found(payload, *path)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**53:
        raise BadPayload(f"{'.'.join(path)} must be a positive number")
    return value


def objects(payload: Payload, *path: str) -> list[Payload]:
    """The objects of a list that must not be empty. Raises BadPayload."""
    value = found(payload, *path)
    if not isinstance(value, list) or not value:
        raise BadPayload(f"{'.'.join(path)} must be a list with at least one entry")
    if not all(isinstance(entry, Mapping) for entry in value):
        raise BadPayload(f"{'.'.join(path)} must hold objects")
    return value


def commit_or_none(payload: Payload, *path: str) -> str:
    """A commit; empty for zeros, null and a missing member. Raises BadPayload."""
    commit = optional_text(payload, *path).lower()
    return "" if is_zero(commit) else checked_commit(commit)


def moment(value: Any) -> datetime | None:
    """A time as platforms write it: RFC 3339, `2024-05-01 10:00:00 UTC`, `+1000`."""
    if not isinstance(value, str):
        return None
    try:
        instant = datetime.fromisoformat(value.strip().replace(" UTC", "+00:00"))
    except ValueError:
        return None
    return instant.replace(tzinfo=instant.tzinfo or UTC).astimezone(UTC)


def files_of_commits(payload: Payload) -> Iterator[str]:
    """Yield the paths that the commits added, changed and removed."""
    commits = payload.get("commits")
    for commit in commits if isinstance(commits, list) else ():
        for name in ("added", "modified", "removed"):
            paths = found(commit, name)
            if isinstance(paths, list):
                yield from (path for path in paths if isinstance(path, str))
