"""GitHub, and what Gitea does alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from sync_stack.core.bundle.platforms import Platform
from sync_stack.core.events import (
    BadPayload,
    Effect,
    Event,
    EventKind,
    checked_commit,
    checked_ref,
    checked_repository,
    distinct_files,
    ref_fields,
)
from sync_stack.core.signatures import SignatureVerdict, prefixed_hmac_matches
from sync_stack.platforms.payload import (
    commit_or_none,
    files_of_commits,
    found,
    moment,
    number,
    optional_text,
    repository_fields,
    text,
)
from sync_stack.platforms.registry import EventClass, Proof, class_by_names, git_platforms

_SYNC: Final = frozenset({"opened", "reopened", "synchronize", "synchronized"})


class GitHub:
    """`X-Hub-Signature-256: sha256=<hex>`; the SHA-1 header counts for nothing."""

    needs_delivery_id: ClassVar[bool] = True
    id_is_signed: ClassVar[bool] = False
    json_setting: ClassVar[str] = "Content type"

    def event_class(self, platform: Platform, event: str) -> EventClass | None:
        return class_by_names(platform, event)

    def verdict(self, platform: Platform, proof: Proof) -> SignatureVerdict:
        name = proof.headers.first_present(platform.git_scm_signature) or ""
        given = proof.headers.single(name)
        matched = given is not None and self.matches(proof, given)
        return SignatureVerdict.VALID if matched else SignatureVerdict.INVALID

    def matches(self, proof: Proof, given: str) -> bool:
        return prefixed_hmac_matches(proof.keys.secrets, proof.body, given)

    def required_members(self, _platform: Platform, event: EventClass) -> tuple[str, ...]:
        if event is EventClass.PUSH:
            return ("ref", "repository")
        return ("action", "pull_request", "repository")

    def is_empty(
        self, _platform: Platform, _event: EventClass, _payload: Mapping[str, Any]
    ) -> bool:
        return False

    def repository(self, _platform: Platform, payload: Mapping[str, Any]) -> str:
        return checked_repository(text(payload, "repository", "full_name"))

    def normalize(
        self, platform: Platform, event: str, payload: Mapping[str, Any]
    ) -> tuple[Event, ...]:
        repo = self.repository(platform, payload)
        common = repository_fields(platform, repo)
        if self.event_class(platform, event) is EventClass.PUSH:
            return (Event(**common, **_push(payload)),)
        return (Event(**common, **_pull_request(payload, repo)),)

    def effect(self, action: str) -> Effect:
        if action in _SYNC:
            return Effect.SYNC
        return Effect.CLOSE if action == "closed" else Effect.NONE


git_platforms.register("github")(GitHub())


def _push(payload: Mapping[str, Any]) -> dict[str, Any]:
    commit = commit_or_none(payload, "after")
    deleted = payload.get("deleted") is True or not commit
    return ref_fields(text(payload, "ref")) | {
        "commit": "" if deleted else commit,
        "before": commit_or_none(payload, "before"),
        "deleted": deleted,
        "forced": payload.get("forced") is True,
        "files": distinct_files(files_of_commits(payload)),
    }


def _pull_request(payload: Mapping[str, Any], repo: str) -> dict[str, Any]:
    if not isinstance(payload.get("pull_request"), Mapping):
        raise BadPayload("pull_request must be an object")
    pr = number(payload, "number")
    head = optional_text(payload, "pull_request", "head", "repo", "full_name")
    base = optional_text(payload, "pull_request", "base", "repo", "full_name") or repo
    return {
        "kind": EventKind.PULL_REQUEST,
        "ref": checked_ref(f"refs/pull/{pr}/head"),
        "pr": pr,
        "commit": checked_commit(text(payload, "pull_request", "head", "sha").lower()),
        "before": commit_or_none(payload, "before"),
        "action": text(payload, "action")[:100],
        "fork": head.lower() != base.lower(),  # also a head whose repository is gone
        "pr_time": moment(found(payload, "pull_request", "updated_at")),
    }
