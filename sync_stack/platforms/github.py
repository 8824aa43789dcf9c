"""GitHub, and Gitea and Forgejo: its payloads under a bare hex signature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from sync_stack.core.bundle.platforms import Platform, PlatformDefaults, platform_kinds
from sync_stack.core.events import (
    BadPayload,
    Effect,
    Event,
    EventKind,
    check_commit,
    check_ref,
    check_repository,
    distinct_files,
)
from sync_stack.core.git_platform import (
    EventClass,
    GitPlatform,
    Payload,
    Proof,
    commit_or_none,
    files_of_commits,
    moment,
    number,
    optional_text,
    text,
    value_at,
    verify_body_hmac,
)
from sync_stack.core.signatures import (
    SignatureVerdict,
    hex_hmac_matches,
    prefixed_hmac_matches,
)

_SYNC: Final = frozenset({"opened", "reopened", "synchronize", "synchronized"})


class GitHub(GitPlatform):
    """`X-Hub-Signature-256: sha256=<hex>`; the SHA-1 header counts for nothing."""

    defaults: ClassVar[PlatformDefaults] = PlatformDefaults(
        endpoint="https://github.com",
        event_type_header=("X-GitHub-Event",),
        git_scm_signature=("X-Hub-Signature-256",),
        delivery_header=("X-GitHub-Delivery",),
    )
    precedence: ClassVar[int] = 40
    clone_user: ClassVar[str] = "x-access-token"
    json_setting: ClassVar[str] = "Content type"

    def verify_signature(self, platform: Platform, proof: Proof) -> SignatureVerdict:
        return verify_body_hmac(platform, proof, prefixed_hmac_matches)

    def required_members(self, _platform: Platform, event: EventClass) -> tuple[str, ...]:
        if event is EventClass.PUSH:
            return ("ref", "repository")
        return ("action", "pull_request", "repository")

    def repository(self, _platform: Platform, payload: Payload) -> str:
        return check_repository(text(payload, "repository", "full_name"))

    def normalize(self, platform: Platform, event: str, payload: Payload) -> tuple[Event, ...]:
        repo = self.repository(platform, payload)
        shared = self.event_of(platform, repo)
        if self.event_class(platform, event) is EventClass.PUSH:
            return (_push(shared, payload),)
        return (_pull_request(shared, payload),)

    def effect(self, action: str) -> Effect:
        if action in _SYNC:
            return Effect.SYNC
        return Effect.CLOSE if action == "closed" else Effect.NONE


def _push(shared: Event, payload: Payload) -> Event:
    commit = commit_or_none(payload, "after")
    deleted = payload.get("deleted") is True or not commit
    return replace(
        shared.on_ref(text(payload, "ref")),
        commit="" if deleted else commit,
        before=commit_or_none(payload, "before"),
        deleted=deleted,
        forced=payload.get("forced") is True,
        files=distinct_files(files_of_commits(payload)),
    )


def _pull_request(shared: Event, payload: Payload) -> Event:
    if not isinstance(payload.get("pull_request"), Mapping):
        raise BadPayload("pull_request must be an object")
    pr = number(payload, "number")
    head = optional_text(payload, "pull_request", "head", "repo", "full_name")
    base = optional_text(payload, "pull_request", "base", "repo", "full_name") or shared.repo
    return replace(
        shared,
        kind=EventKind.PULL_REQUEST,
        ref=check_ref(f"refs/pull/{pr}/head"),
        pr=pr,
        commit=check_commit(text(payload, "pull_request", "head", "sha").lower()),
        before=commit_or_none(payload, "before"),
        action=text(payload, "action")[:100],
        fork=head.lower() != base.lower(),  # also a head whose repository is gone
        pr_time=moment(value_at(payload, "pull_request", "updated_at")),
    )


platform_kinds.register("github")(GitHub())


class Gitea(GitHub):
    """It also sends the headers of the platforms it descends from, so it comes before them."""

    defaults: ClassVar[PlatformDefaults] = PlatformDefaults(
        endpoint="",
        event_type_header=("X-Gitea-Event", "X-Forgejo-Event"),
        git_scm_signature=("X-Forgejo-Signature", "X-Gitea-Signature"),
        delivery_header=("X-Gitea-Delivery", "X-Forgejo-Delivery"),
    )
    precedence: ClassVar[int] = 10
    clone_user: ClassVar[str] = "oauth2"
    json_setting: ClassVar[str] = "POST Content Type"

    def verify_signature(self, platform: Platform, proof: Proof) -> SignatureVerdict:
        return verify_body_hmac(platform, proof, hex_hmac_matches)


platform_kinds.register("gitea")(Gitea())
