"""Bitbucket: Cloud and Data Center, which share little but the signature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from sync_stack.core.bundle.platforms import (
    Flavor,
    Platform,
    PlatformDefaults,
    Protocol,
    platform_kinds,
)
from sync_stack.core.events import (
    BadPayload,
    Effect,
    Event,
    EventKind,
    check_commit,
    check_ref,
    check_repository,
)
from sync_stack.core.git_platform import (
    EventClass,
    GitPlatform,
    Payload,
    Proof,
    commit_or_none,
    moment,
    number,
    objects,
    optional_text,
    text,
    value_at,
    verify_body_hmac,
)
from sync_stack.core.signatures import SignatureVerdict, prefixed_hmac_matches

_REF_PREFIX: Final = {
    "branch": "refs/heads/",
    "named_branch": "refs/heads/",
    "tag": "refs/tags/",
    "annotated_tag": "refs/tags/",
}
_SYNC: Final = frozenset({"created", "updated", "opened", "from_ref_updated"})
_CLOSE: Final = frozenset({"fulfilled", "rejected", "merged", "declined", "deleted"})
_REQUIRED: Final = {
    (Flavor.CLOUD, EventClass.PUSH): ("push", "repository"),
    (Flavor.CLOUD, EventClass.PULL_REQUEST): ("pullrequest", "repository"),
    (Flavor.DATACENTER, EventClass.PUSH): ("changes", "repository"),
    (Flavor.DATACENTER, EventClass.PULL_REQUEST): ("pullRequest",),
}


class Bitbucket(GitPlatform):
    """`X-Hub-Signature: sha256=<hex>`. The action of a pull request is in the event's name."""

    defaults: ClassVar[PlatformDefaults] = PlatformDefaults(
        endpoint="https://bitbucket.org",
        event_type_header=("X-Event-Key",),
        git_scm_signature=("X-Hub-Signature",),
        delivery_header=("X-Request-UUID",),
        push_event_name=("repo:push",),
        pr_event_name=("pullrequest:*",),
    )
    flavors: ClassVar[Mapping[Flavor, PlatformDefaults]] = {
        Flavor.CLOUD: defaults,
        Flavor.DATACENTER: PlatformDefaults(
            endpoint="",
            event_type_header=("X-Event-Key",),
            git_scm_signature=("X-Hub-Signature",),
            delivery_header=("X-Request-Id",),
            push_event_name=("repo:refs_changed",),
            pr_event_name=("pr:*",),
        ),
    }
    precedence: ClassVar[int] = 30
    clone_user: ClassVar[str] = "x-token-auth"

    def verify_signature(self, platform: Platform, proof: Proof) -> SignatureVerdict:
        return verify_body_hmac(platform, proof, prefixed_hmac_matches)

    def required_members(self, platform: Platform, event: EventClass) -> tuple[str, ...]:
        return _REQUIRED[platform.flavor, event]

    def is_empty(self, platform: Platform, event: EventClass, payload: Payload) -> bool:
        path = ("push", "changes") if platform.flavor is Flavor.CLOUD else ("changes",)
        return event is EventClass.PUSH and value_at(payload, *path) == []

    def repository(self, platform: Platform, payload: Payload) -> str:
        if platform.flavor is Flavor.CLOUD:
            return check_repository(text(payload, "repository", "full_name"))
        holder = payload if "repository" in payload else value_at(payload, "pullRequest", "toRef")
        return _project_slug(holder if isinstance(holder, Mapping) else {})

    def normalize(self, platform: Platform, event: str, payload: Payload) -> tuple[Event, ...]:
        shared = self.event_of(platform, self.repository(platform, payload))
        cloud = platform.flavor is Flavor.CLOUD
        if self.event_class(platform, event) is EventClass.PUSH:
            if cloud:
                changes = objects(payload, "push", "changes")
                return tuple(_cloud_change(shared, change) for change in changes)
            return tuple(_change(shared, change) for change in objects(payload, "changes"))
        request = (_cloud_pull_request if cloud else _pull_request)(shared, payload)
        return (replace(request, action=event.partition(":")[2][:100]),)

    def effect(self, action: str) -> Effect:
        if action in _SYNC:
            return Effect.SYNC
        return Effect.CLOSE if action in _CLOSE else Effect.NONE

    def clone_url(self, platform: Platform, repo: str) -> str:
        plain = platform.flavor is Flavor.CLOUD or platform.protocol is Protocol.SSH
        return super().clone_url(platform, repo if plain else f"scm/{repo}")


def _project_slug(holder: Payload) -> str:
    key = text(holder, "repository", "project", "key")
    return check_repository(f"{key}/{text(holder, 'repository', 'slug')}")


def _cloud_change(shared: Event, change: Payload) -> Event:
    new, old = change.get("new"), change.get("old")
    named = new if isinstance(new, Mapping) else old
    if not isinstance(named, Mapping):
        raise BadPayload("push.changes[] must hold new or old")
    prefix = _REF_PREFIX.get(text(named, "type"))
    if prefix is None:
        raise BadPayload("push.changes[].new.type must be branch or tag")
    commit = text(new, "target", "hash").lower() if isinstance(new, Mapping) else ""
    return replace(
        shared.on_ref(prefix + text(named, "name")),
        commit=check_commit(commit) if commit else "",
        before=commit_or_none(change, "old", "target", "hash"),
        deleted=not commit,
        forced=change.get("forced") is True,
    )


def _change(shared: Event, change: Payload) -> Event:
    deleted = optional_text(change, "type") == "DELETE"
    return replace(
        shared.on_ref(text(change, "ref", "id")),
        commit="" if deleted else check_commit(text(change, "toHash").lower()),
        before=commit_or_none(change, "fromHash"),
        deleted=deleted,
    )


def _cloud_pull_request(shared: Event, payload: Payload) -> Event:
    request = ("pullrequest",)
    source = optional_text(payload, *request, "source", "repository", "full_name")
    target = optional_text(payload, *request, "destination", "repository", "full_name")
    branch = text(payload, *request, "source", "branch", "name")
    return replace(
        shared,
        kind=EventKind.PULL_REQUEST,
        ref=check_ref(f"refs/heads/{branch}"),
        pr=number(payload, *request, "id"),
        commit=check_commit(text(payload, *request, "source", "commit", "hash").lower()),
        fork=not source or source.lower() != target.lower(),
        pr_time=moment(value_at(payload, *request, "updated_on")),
    )


def _pull_request(shared: Event, payload: Payload) -> Event:
    pr = number(payload, "pullRequest", "id")
    source = value_at(payload, "pullRequest", "fromRef")
    target = value_at(payload, "pullRequest", "toRef")
    if not isinstance(source, Mapping) or not isinstance(target, Mapping):
        raise BadPayload("pullRequest must hold fromRef and toRef")
    return replace(
        shared,
        kind=EventKind.PULL_REQUEST,
        ref=check_ref(f"refs/pull-requests/{pr}/from"),
        pr=pr,
        commit=check_commit(text(source, "latestCommit").lower()),
        fork=_project_slug(source).lower() != _project_slug(target).lower(),
        pr_time=moment(payload.get("date")),
    )


platform_kinds.register("bitbucket")(Bitbucket())
