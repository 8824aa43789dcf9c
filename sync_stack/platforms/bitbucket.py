"""Bitbucket: Cloud and Data Center, which share little but the signature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from sync_stack.core.bundle.platforms import Flavor, Platform, Protocol
from sync_stack.core.events import (
    BadPayload,
    Effect,
    Event,
    EventKind,
    checked_commit,
    checked_ref,
    checked_repository,
    ref_fields,
)
from sync_stack.core.signatures import SignatureVerdict, prefixed_hmac_matches
from sync_stack.platforms.payload import (
    Payload,
    commit_or_none,
    found,
    moment,
    number,
    objects,
    optional_text,
    repository_fields,
    text,
)
from sync_stack.platforms.registry import EventClass, Proof, class_by_names, git_platforms

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


class Bitbucket:
    """`X-Hub-Signature: sha256=<hex>`. The action of a pull request is in the event's name."""

    needs_delivery_id: ClassVar[bool] = True
    id_is_signed: ClassVar[bool] = False
    json_setting: ClassVar[str] = ""

    def event_class(self, platform: Platform, event: str) -> EventClass | None:
        return class_by_names(platform, event)

    def verdict(self, platform: Platform, proof: Proof) -> SignatureVerdict:
        name = proof.headers.first_present(platform.git_scm_signature) or ""
        given = proof.headers.single(name)
        keys = proof.keys.secrets
        matched = given is not None and prefixed_hmac_matches(keys, proof.body, given)
        return SignatureVerdict.VALID if matched else SignatureVerdict.INVALID

    def required_members(self, platform: Platform, event: EventClass) -> tuple[str, ...]:
        return _REQUIRED[platform.flavor, event]

    def is_empty(self, platform: Platform, event: EventClass, payload: Mapping[str, Any]) -> bool:
        path = ("push", "changes") if platform.flavor is Flavor.CLOUD else ("changes",)
        return event is EventClass.PUSH and found(payload, *path) == []

    def repository(self, platform: Platform, payload: Mapping[str, Any]) -> str:
        if platform.flavor is Flavor.CLOUD:
            return checked_repository(text(payload, "repository", "full_name"))
        holder = payload if "repository" in payload else found(payload, "pullRequest", "toRef")
        return _project_slug(holder if isinstance(holder, Mapping) else {})

    def normalize(
        self, platform: Platform, event: str, payload: Mapping[str, Any]
    ) -> tuple[Event, ...]:
        repo = self.repository(platform, payload)
        common = repository_fields(platform, repo, path=_clone_path(platform, repo))
        cloud = platform.flavor is Flavor.CLOUD
        if self.event_class(platform, event) is EventClass.PUSH:
            changes = _cloud_changes(payload) if cloud else _changes(payload)
            return tuple(Event(**common, **change) for change in changes)
        request = _cloud_pull_request(payload) if cloud else _pull_request(payload)
        action = event.partition(":")[2][:100]
        return (Event(**common, **request, kind=EventKind.PULL_REQUEST, action=action),)

    def effect(self, action: str) -> Effect:
        if action in _SYNC:
            return Effect.SYNC
        return Effect.CLOSE if action in _CLOSE else Effect.NONE


git_platforms.register("bitbucket")(Bitbucket())


def _clone_path(platform: Platform, repo: str) -> str:
    plain = platform.flavor is Flavor.CLOUD or platform.protocol is Protocol.SSH
    return repo if plain else f"scm/{repo}"


def _project_slug(holder: Payload) -> str:
    key = text(holder, "repository", "project", "key")
    return checked_repository(f"{key}/{text(holder, 'repository', 'slug')}")


def _cloud_changes(payload: Payload) -> list[dict[str, Any]]:
    return [_cloud_change(change) for change in objects(payload, "push", "changes")]


def _changes(payload: Payload) -> list[dict[str, Any]]:
    return [_change(change) for change in objects(payload, "changes")]


def _cloud_change(change: Payload) -> dict[str, Any]:
    new, old = change.get("new"), change.get("old")
    named = new if isinstance(new, Mapping) else old
    if not isinstance(named, Mapping):
        raise BadPayload("push.changes[] must hold new or old")
    prefix = _REF_PREFIX.get(text(named, "type"))
    if prefix is None:
        raise BadPayload("push.changes[].new.type must be branch or tag")
    deleted = not isinstance(new, Mapping)
    return ref_fields(prefix + text(named, "name")) | {
        "commit": "" if deleted else checked_commit(text(new or {}, "target", "hash").lower()),
        "before": commit_or_none(change, "old", "target", "hash"),
        "deleted": deleted,
        "forced": change.get("forced") is True,
    }


def _change(change: Payload) -> dict[str, Any]:
    deleted = optional_text(change, "type") == "DELETE"
    return ref_fields(text(change, "ref", "id")) | {
        "commit": "" if deleted else checked_commit(text(change, "toHash").lower()),
        "before": commit_or_none(change, "fromHash"),
        "deleted": deleted,
    }


def _cloud_pull_request(payload: Payload) -> dict[str, Any]:
    request = ("pullrequest",)
    source = optional_text(payload, *request, "source", "repository", "full_name")
    target = optional_text(payload, *request, "destination", "repository", "full_name")
    branch = text(payload, *request, "source", "branch", "name")
    return {
        "ref": checked_ref(f"refs/heads/{branch}"),
        "pr": number(payload, *request, "id"),
        "commit": checked_commit(text(payload, *request, "source", "commit", "hash").lower()),
        "fork": not source or source.lower() != target.lower(),
        "pr_time": moment(found(payload, *request, "updated_on")),
    }


def _pull_request(payload: Payload) -> dict[str, Any]:
    pr = number(payload, "pullRequest", "id")
    source = found(payload, "pullRequest", "fromRef")
    target = found(payload, "pullRequest", "toRef")
    if not isinstance(source, Mapping) or not isinstance(target, Mapping):
        raise BadPayload("pullRequest must hold fromRef and toRef")
    return {
        "ref": checked_ref(f"refs/pull-requests/{pr}/from"),
        "pr": pr,
        "commit": checked_commit(text(source, "latestCommit").lower()),
        "fork": _project_slug(source).lower() != _project_slug(target).lower(),
        "pr_time": moment(payload.get("date")),
    }
