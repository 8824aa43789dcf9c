"""The port of Git platforms, and how they read payloads, with errors that name the members.

A platform is one module in `sync_stack/platforms` that registers a GitPlatform.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import ClassVar, NamedTuple

from sync_stack.core.bundle.platforms import Platform, PlatformKind, platform_kinds
from sync_stack.core.events import (
    BadPayload,
    Effect,
    Event,
    EventKind,
    check_commit,
    clone_url,
    is_zero,
)
from sync_stack.core.headers import Headers
from sync_stack.core.signatures import Keys, SignatureVerdict

Payload = Mapping[str, object]


class EventClass(StrEnum):
    PUSH = "push"
    PULL_REQUEST = "pull_request"


class Proof(NamedTuple):
    """What a signature is checked with and against."""

    headers: Headers
    body: bytes
    keys: Keys
    now_s: float
    window_s: float


class GitPlatform(PlatformKind, ABC):
    """What differs between platforms; stateless.

    `precedence`: the kind with the lowest counts when a delivery has the headers of several.
    `clone_user`: the user name beside an access token. `id_is_signed`: the delivery id
    cannot be replaced on the same body. `json_setting`: the webhook's setting that makes it send
    JSON; empty when it always does.
    """

    precedence: ClassVar[int]
    clone_user: ClassVar[str] = "oauth2"
    needs_delivery_id: ClassVar[bool] = True  # in production
    id_is_signed: ClassVar[bool] = False
    json_setting: ClassVar[str] = ""

    def event_class(self, platform: Platform, event: str) -> EventClass | None:
        """Return the class by push_event_name and pr_event_name; None for any other event."""
        if _is_among(platform.push_event_name, event):
            return EventClass.PUSH
        if _is_among(platform.pr_event_name, event):
            return EventClass.PULL_REQUEST
        return None

    @abstractmethod
    def verify_signature(self, platform: Platform, proof: Proof) -> SignatureVerdict:
        """Verify the delivery's signature, in constant time."""

    @abstractmethod
    def required_members(self, platform: Platform, event: EventClass) -> tuple[str, ...]:
        """Return names at the top of a payload."""

    def is_empty(self, _platform: Platform, _event: EventClass, _payload: Payload) -> bool:
        """Check for a list of changes without changes: there is nothing to do then."""
        return False

    @abstractmethod
    def repository(self, platform: Platform, payload: Payload) -> str:
        """Return its name as in events; raise BadPayload."""

    @abstractmethod
    def normalize(self, platform: Platform, event: str, payload: Payload) -> tuple[Event, ...]:
        """Return the changes that a delivery reports, at least one; raise BadPayload."""

    @abstractmethod
    def effect(self, action: str) -> Effect:
        """Return the effect of a pull request's action (`Event.action`)."""

    def clone_url(self, platform: Platform, repo: str) -> str:
        return clone_url(platform.endpoint, repo, platform.protocol)

    def event_of(self, platform: Platform, repo: str) -> Event:
        """Return what all events of a delivery share; the ref is still empty."""
        url = self.clone_url(platform, repo)
        return Event(platform=platform.name, kind=EventKind.PUSH, repo=repo, clone_url=url, ref="")


def verify_body_hmac(
    platform: Platform,
    proof: Proof,
    matches_signature: Callable[[Sequence[bytes], bytes, str], bool],
) -> SignatureVerdict:
    """Compare the first signature header that is present with the HMACs of the body.

    `matches_signature`: `prefixed_hmac_matches` or `hex_hmac_matches`.
    """
    name = proof.headers.first_present(platform.git_scm_signature) or ""
    given = proof.headers.single(name)
    matched = given is not None and matches_signature(proof.keys.secrets, proof.body, given)
    return SignatureVerdict.VALID if matched else SignatureVerdict.INVALID


def git_platform(platform: Platform) -> GitPlatform:
    """Return the plug-in of a platform; raise UnknownPlugin."""
    found = platform_kinds[platform.kind]
    if not isinstance(found, GitPlatform):
        raise TypeError(f"{platform.kind} is registered without a Git platform")
    return found


def normalize(platform: Platform, event: str, payload: Payload) -> tuple[Event, ...]:
    """Return the changes that a delivery reports; raise BadPayload. `event`: the header's value."""
    return git_platform(platform).normalize(platform, event, payload)


def _is_among(names: tuple[str, ...], event: str) -> bool:
    return event in names or any(
        name.endswith("*") and event.startswith(name[:-1]) for name in names
    )


def value_at(payload: Payload, *path: str) -> object:
    """Return the value at the path; None when a member on the way is missing or no object."""
    value: object = payload
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def text(payload: Payload, *path: str) -> str:
    """Return the text at the path; raise BadPayload if it is empty or no text."""
    value = value_at(payload, *path)
    if not isinstance(value, str) or not value:
        raise BadPayload(f"{'.'.join(path)} must be a text")
    return value


def optional_text(payload: Payload, *path: str) -> str:
    value = value_at(payload, *path)
    return value if isinstance(value, str) else ""


def number(payload: Payload, *path: str) -> int:
    """Return a positive whole number; raise BadPayload."""
    value = value_at(payload, *path)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**53:
        raise BadPayload(f"{'.'.join(path)} must be a positive number")
    return value


def objects(payload: Payload, *path: str) -> list[Payload]:
    """The objects of a list that must not be empty. Raises BadPayload."""
    value = value_at(payload, *path)
    if not isinstance(value, list) or not value:
        raise BadPayload(f"{'.'.join(path)} must be a list with at least one entry")
    if not all(isinstance(entry, Mapping) for entry in value):
        raise BadPayload(f"{'.'.join(path)} must hold objects")
    return value


def commit_or_none(payload: Payload, *path: str) -> str:
    """A commit; empty for zeros, null and a missing member. Raises BadPayload."""
    commit = optional_text(payload, *path).lower()
    return "" if is_zero(commit) else check_commit(commit)


def moment(value: object) -> datetime | None:
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
            paths = value_at(commit, name)
            if isinstance(paths, list):
                yield from (path for path in paths if isinstance(path, str))
