"""GitLab: a signed delivery (`whsec_`), or a token in a header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from sync_stack.core.bundle.platforms import Platform
from sync_stack.core.events import (
    Effect,
    Event,
    EventKind,
    checked_commit,
    checked_ref,
    checked_repository,
    distinct_files,
    is_zero,
    ref_fields,
)
from sync_stack.core.signatures import SignatureVerdict, StandardWebhook, token_matches
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

_PUSH: Final = "Push Hook"
_TAG_PUSH: Final = "Tag Push Hook"
_EFFECTS: Final = {
    "open": Effect.SYNC,
    "reopen": Effect.SYNC,
    "update": Effect.SYNC,
    "close": Effect.CLOSE,
    "merge": Effect.CLOSE,
}


class GitLab:
    """With a signing secret `webhook-signature` alone counts, and it covers `webhook-id`."""

    needs_delivery_id: ClassVar[bool] = False
    id_is_signed: ClassVar[bool] = True
    json_setting: ClassVar[str] = ""

    def event_class(self, platform: Platform, event: str) -> EventClass | None:
        if event == _TAG_PUSH and _PUSH in platform.push_event_name:
            return EventClass.PUSH
        return class_by_names(platform, event)

    def verdict(self, platform: Platform, proof: Proof) -> SignatureVerdict:
        if proof.keys.signing:
            return _signed(platform.git_scm_signature[0], proof)
        token = proof.headers.single(platform.git_scm_signature[-1])
        matched = token is not None and token_matches(proof.keys.secrets, token)
        return SignatureVerdict.VALID if matched else SignatureVerdict.INVALID

    def required_members(self, _platform: Platform, event: EventClass) -> tuple[str, ...]:
        return ("ref" if event is EventClass.PUSH else "object_attributes", "project")

    def is_empty(
        self, _platform: Platform, _event: EventClass, _payload: Mapping[str, Any]
    ) -> bool:
        return False

    def repository(self, _platform: Platform, payload: Mapping[str, Any]) -> str:
        return checked_repository(text(payload, "project", "path_with_namespace"))

    def normalize(
        self, platform: Platform, event: str, payload: Mapping[str, Any]
    ) -> tuple[Event, ...]:
        repo = self.repository(platform, payload)
        common = repository_fields(platform, repo)
        if self.event_class(platform, event) is EventClass.PUSH:
            return (Event(**common, **_push(payload)),)
        return (Event(**common, **_merge_request(payload)),)

    def effect(self, action: str) -> Effect:
        return _EFFECTS.get(action, Effect.NONE)


git_platforms.register("gitlab")(GitLab())


def _signed(header: str, proof: Proof) -> SignatureVerdict:
    values = [proof.headers.single(name) for name in ("webhook-id", "webhook-timestamp", header)]
    if None in values:
        return SignatureVerdict.INVALID
    delivery, timestamp, signatures = (value or "" for value in values)
    webhook = StandardWebhook(id=delivery, timestamp=timestamp, signatures=signatures)
    return webhook.verdict(
        proof.keys.signing, proof.body, now_s=proof.now_s, window_s=proof.window_s
    )


def _push(payload: Mapping[str, Any]) -> dict[str, Any]:
    deleted = is_zero(optional_text(payload, "after"))
    commit = commit_or_none(payload, "checkout_sha") or commit_or_none(payload, "after")
    return ref_fields(text(payload, "ref")) | {
        "commit": "" if deleted else commit,
        "before": commit_or_none(payload, "before"),
        "deleted": deleted,
        "files": distinct_files(files_of_commits(payload)),
    }


def _merge_request(payload: Mapping[str, Any]) -> dict[str, Any]:
    pr = number(payload, "object_attributes", "iid")
    source = number(payload, "object_attributes", "source_project_id")
    target = number(payload, "object_attributes", "target_project_id")
    return {
        "kind": EventKind.PULL_REQUEST,
        "ref": checked_ref(f"refs/merge-requests/{pr}/head"),
        "pr": pr,
        "commit": checked_commit(text(payload, "object_attributes", "last_commit", "id").lower()),
        "before": commit_or_none(payload, "object_attributes", "oldrev"),
        "action": optional_text(payload, "object_attributes", "action")[:100],
        "fork": source != target,
        "pr_time": moment(found(payload, "object_attributes", "updated_at")),
    }
