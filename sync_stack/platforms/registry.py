"""The port of Git platforms, and where they register."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from kernel.registry import Registry
from sync_stack.core.bundle.platforms import Platform
from sync_stack.core.events import Effect, Event
from sync_stack.core.headers import Headers
from sync_stack.core.signatures import Keys, SignatureVerdict


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


class GitPlatform(Protocol):
    """What differs between platforms; stateless."""

    needs_delivery_id: ClassVar[bool]  # in production
    id_is_signed: ClassVar[bool]  # whether nobody can put another delivery id on the same body
    json_setting: ClassVar[str]  # the webhook's setting that makes it send JSON; empty: always

    def event_class(self, platform: Platform, event: str) -> EventClass | None:
        """None for an event that is not handled."""
        ...

    def verdict(self, platform: Platform, proof: Proof) -> SignatureVerdict: ...

    def required_members(self, platform: Platform, event: EventClass) -> tuple[str, ...]:
        """Names at the top of a payload."""
        ...

    def is_empty(self, platform: Platform, event: EventClass, payload: Mapping[str, Any]) -> bool:
        """Whether it lists changes, and none: there is nothing to do then."""
        ...

    def repository(self, platform: Platform, payload: Mapping[str, Any]) -> str:
        """Its name as in events. Raises BadPayload."""
        ...

    def normalize(
        self, platform: Platform, event: str, payload: Mapping[str, Any]
    ) -> tuple[Event, ...]:
        """The changes that a delivery tells of, at least one. Raises BadPayload."""
        ...

    def effect(self, action: str) -> Effect:
        """Return the effect of a pull request's action (`Event.action`)."""
        ...


git_platforms: Final[Registry[GitPlatform]] = Registry("git platform")


def git_platform(platform: Platform) -> GitPlatform:
    """Raises UnknownPlugin."""
    return git_platforms[platform.kind]


def normalize(platform: Platform, event: str, payload: Mapping[str, Any]) -> tuple[Event, ...]:
    """The changes that a delivery tells of; `event` is the header's value. Raises BadPayload."""
    return git_platform(platform).normalize(platform, event, payload)


def class_by_names(platform: Platform, event: str) -> EventClass | None:
    """By push_event_name and pr_event_name; a trailing `*` matches a prefix."""
    if _is_among(platform.push_event_name, event):
        return EventClass.PUSH
    if _is_among(platform.pr_event_name, event):
        return EventClass.PULL_REQUEST
    return None


def _is_among(names: tuple[str, ...], event: str) -> bool:
    return event in names or any(
        name.endswith("*") and event.startswith(name[:-1]) for name in names
    )
