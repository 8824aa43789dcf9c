"""An event of any Git platform (reference: sync-stack 4.2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NotRequired, Self, TypedDict
from urllib.parse import urlsplit

from kernel.clock import parse_rfc3339, rfc3339

MAX_FILES: Final = 10_000  # of one event; they are information only
_MAX_NAME: Final = 1024
_SEGMENT: Final = re.compile(r"[A-Za-z0-9._~-]{1,255}")
_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}")
_BAD_REF: Final = re.compile(
    r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|\Z)|\.\Z|/\Z|\.(?=/)"
)


class BadPayload(ValueError):
    """A payload that cannot be read as an event; the message names the member."""


class EventKind(StrEnum):
    PUSH = "push"
    TAG = "tag"
    PULL_REQUEST = "pull_request"


class RefFields(TypedDict):
    """The members of an event that follow from its ref."""

    ref: str
    kind: EventKind
    branch: NotRequired[str]
    tag: NotRequired[str]


class Effect(StrEnum):
    """What an action of a pull request asks for."""

    SYNC = "sync"
    CLOSE = "close"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One change of one ref; texts are empty where they do not apply.

    `ref` is what is fetched. `commit` is empty when the ref was deleted, and may be a prefix for
    pull requests of Bitbucket. `clone_url` comes from the bundle, never from the payload; a rule's
    repo_url takes its place. `default_branch` is not known before the repository was asked.
    """

    platform: str
    kind: EventKind
    repo: str
    clone_url: str
    ref: str
    branch: str = ""
    tag: str = ""
    pr: int | None = None
    commit: str = ""
    before: str = ""
    deleted: bool = False
    forced: bool = False
    action: str = ""
    default_branch: str = ""
    fork: bool = False
    files: tuple[str, ...] = ()
    pr_time: datetime | None = None

    def on_ref(self, ref: str) -> Self:
        """Return the event for a branch or a tag; raise BadPayload."""
        return replace(self, **ref_fields(ref))

    def as_dict(self) -> dict[str, object]:
        """Return the form of a task record: `kind` is called event, empty members are left out."""
        made: dict[str, object] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, datetime):
                value = rfc3339(value)
            elif isinstance(value, tuple):
                value = list(value)
            if value or (value == 0 and not isinstance(value, bool)):
                made["event" if each.name == "kind" else each.name] = value
        return made

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Return the event that `as_dict` wrote."""
        given = {
            "kind" if name == "event" else name: value
            for name, value in stored.items()
            if name == "event" or name in cls.__slots__
        }
        given["kind"] = EventKind(given["kind"])
        given["files"] = tuple(given.get("files", ()))
        if "pr_time" in given:
            given["pr_time"] = parse_rfc3339(given["pr_time"])
        return cls(**given)


def check_repository(name: str) -> str:
    """Return the name, `owner/name`, perhaps with groups between; raise BadPayload otherwise."""
    parts = name.split("/")
    if (
        len(parts) < len(("owner", "name"))
        or len(name) > _MAX_NAME
        or any(part in {".", ".."} or not _SEGMENT.fullmatch(part) for part in parts)
    ):
        raise BadPayload(f"{name[:100]!r} is not a name of a repository")
    return name


def check_ref(ref: str) -> str:
    """Return a full ref that `git check-ref-format` accepts; raise BadPayload otherwise."""
    if not ref.startswith("refs/") or len(ref) > _MAX_NAME or _BAD_REF.search(ref):
        raise BadPayload(f"{ref[:100]!r} is not a ref")
    return ref


def check_commit(commit: str) -> str:
    """Return a commit, 7 to 64 lower-case hexadecimal digits; raise BadPayload otherwise."""
    if not _COMMIT.fullmatch(commit):
        raise BadPayload(f"{commit[:100]!r} is not a commit")
    return commit


def is_zero(commit: str) -> bool:
    """Whether it stands for "no commit": zeros only, or nothing."""
    return not commit.strip("0")


def ref_fields(ref: str) -> RefFields:
    """Return `ref`, with `kind` and `branch` or `tag` after it. Raises BadPayload."""
    check_ref(ref)
    if ref.startswith("refs/heads/"):
        return {"ref": ref, "kind": EventKind.PUSH, "branch": ref.removeprefix("refs/heads/")}
    if ref.startswith("refs/tags/"):
        return {"ref": ref, "kind": EventKind.TAG, "tag": ref.removeprefix("refs/tags/")}
    raise BadPayload(f"{ref[:100]!r} is neither a branch nor a tag")


def distinct_files(paths: Iterable[str]) -> tuple[str, ...]:
    """In order of appearance, each once, `MAX_FILES` at most."""
    seen: dict[str, None] = {}
    for path in paths:
        seen[path] = None
        if len(seen) >= MAX_FILES:
            break
    return tuple(seen)


def clone_url(endpoint: str, path: str, protocol: str) -> str:
    """The URL of the repository at `path` below the web base, in the form of `protocol`."""
    if protocol == "ssh":
        host = urlsplit(endpoint).hostname or ""
        return f"ssh://git@{f'[{host}]' if ':' in host else host}/{path}.git"
    base = endpoint.rstrip("/")
    if protocol == "http" and base.startswith("https://"):
        base = f"http://{base.removeprefix('https://')}"
    return f"{base}/{path}.git"
