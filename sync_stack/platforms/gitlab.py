"""GitLab: a signed delivery (`whsec_`), or a token in a header."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from sync_stack.core.bundle.platforms import Platform, PlatformDefaults, platform_kinds
from sync_stack.core.events import (
    Effect,
    Event,
    EventKind,
    check_commit,
    check_ref,
    check_repository,
    distinct_files,
    is_zero,
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
)
from sync_stack.core.signatures import SignatureVerdict, StandardWebhook, token_matches

_PUSH: Final = "Push Hook"
_TAG_PUSH: Final = "Tag Push Hook"
_EFFECTS: Final = {
    "open": Effect.SYNC,
    "reopen": Effect.SYNC,
    "update": Effect.SYNC,
    "close": Effect.CLOSE,
    "merge": Effect.CLOSE,
}


class GitLab(GitPlatform):
    """With a signing secret `webhook-signature` alone counts, and it covers `webhook-id`."""

    defaults: ClassVar[PlatformDefaults] = PlatformDefaults(
        endpoint="https://gitlab.com",
        event_type_header=("X-Gitlab-Event",),
        git_scm_signature=("webhook-signature", "X-Gitlab-Token"),
        delivery_header=("webhook-id", "Idempotency-Key", "X-Gitlab-Event-UUID"),
        push_event_name=(_PUSH, _TAG_PUSH),
        pr_event_name=("Merge Request Hook",),
    )
    has_signing_secret: ClassVar[bool] = True
    precedence: ClassVar[int] = 20
    needs_delivery_id: ClassVar[bool] = False
    id_is_signed: ClassVar[bool] = True

    def event_class(self, platform: Platform, event: str) -> EventClass | None:
        if event == _TAG_PUSH and _PUSH in platform.push_event_name:
            return EventClass.PUSH
        return super().event_class(platform, event)

    def verify_signature(self, platform: Platform, proof: Proof) -> SignatureVerdict:
        if proof.keys.signing:
            return _verify(platform.git_scm_signature[0], proof)
        token = proof.headers.single(platform.git_scm_signature[-1])
        matched = token is not None and token_matches(proof.keys.secrets, token)
        return SignatureVerdict.VALID if matched else SignatureVerdict.INVALID

    def required_members(self, _platform: Platform, event: EventClass) -> tuple[str, ...]:
        return ("ref" if event is EventClass.PUSH else "object_attributes", "project")

    def repository(self, _platform: Platform, payload: Payload) -> str:
        return check_repository(text(payload, "project", "path_with_namespace"))

    def normalize(self, platform: Platform, event: str, payload: Payload) -> tuple[Event, ...]:
        shared = self.event_of(platform, self.repository(platform, payload))
        if self.event_class(platform, event) is EventClass.PUSH:
            return (_push(shared, payload),)
        return (_merge_request(shared, payload),)

    def effect(self, action: str) -> Effect:
        return _EFFECTS.get(action, Effect.NONE)


def _verify(header: str, proof: Proof) -> SignatureVerdict:
    values = [proof.headers.single(name) for name in ("webhook-id", "webhook-timestamp", header)]
    if None in values:
        return SignatureVerdict.INVALID
    delivery, timestamp, signatures = (value or "" for value in values)
    webhook = StandardWebhook(id=delivery, timestamp=timestamp, signatures=signatures)
    return webhook.verdict(
        proof.keys.signing, proof.body, now_s=proof.now_s, window_s=proof.window_s
    )


def _push(shared: Event, payload: Payload) -> Event:
    deleted = is_zero(optional_text(payload, "after"))
    commit = commit_or_none(payload, "checkout_sha") or commit_or_none(payload, "after")
    return replace(
        shared.on_ref(text(payload, "ref")),
        commit="" if deleted else commit,
        before=commit_or_none(payload, "before"),
        deleted=deleted,
        files=distinct_files(files_of_commits(payload)),
    )


def _merge_request(shared: Event, payload: Payload) -> Event:
    pr = number(payload, "object_attributes", "iid")
    source = number(payload, "object_attributes", "source_project_id")
    target = number(payload, "object_attributes", "target_project_id")
    return replace(
        shared,
        kind=EventKind.PULL_REQUEST,
        ref=check_ref(f"refs/merge-requests/{pr}/head"),
        pr=pr,
        commit=check_commit(text(payload, "object_attributes", "last_commit", "id").lower()),
        before=commit_or_none(payload, "object_attributes", "oldrev"),
        action=optional_text(payload, "object_attributes", "action")[:100],
        fork=source != target,
        pr_time=moment(value_at(payload, "object_attributes", "updated_at")),
    )


platform_kinds.register("gitlab")(GitLab())
