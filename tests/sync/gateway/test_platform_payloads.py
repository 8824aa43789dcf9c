"""Deliveries of GitLab, Gitea and Bitbucket, written after their public documentation.

`payloads/<platform>/<what>.json`: the kind and the event header, the payload, and the events that
it means (reference: sync-stack 4.2).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sync_stack.core.bundle.platforms import Flavor, Platform
from sync_stack.core.git_platform import git_platform, normalize
from tests.support.webhooks import hex_hmac, platform, signed
from tests.sync.gateway.world import World, answer, bundle, world

FOLDER = Path(__file__).parent / "payloads"
FILES = sorted(FOLDER.glob("*/*.json"))
GITEA = {"endpoint": "https://gitea.example"}
SERVER = {"flavor": Flavor.DATACENTER, "endpoint": "https://bitbucket.example"}
PLATFORMS = {
    "github": platform("github", secret="github-key"),
    "gitlab": platform("gitlab", secret="gitlab-key"),
    "gitea": platform("gitea", secret="gitea-key", **GITEA),
    "bitbucket": platform("bitbucket", secret="cloud-key"),
    "bitbucket_datacenter": platform(
        "bitbucket", name="bitbucket-dc", secret="server-key", **SERVER
    ),
}
INVALID = (401, "GW_SIGNATURE_INVALID")
IGNORED = (200, "event ignored")


@asynccontextmanager
async def gateway() -> AsyncIterator[World]:
    """All platforms behind one segment."""
    async with world(bundle(*PLATFORMS.values())) as gw:
        yield gw


def headers(name: str, event: str, body: bytes, delivery: str) -> dict[str, str]:
    sender = PLATFORMS[name]
    assert sender.secret
    return signed(
        body,
        kind=sender.kind,
        event=event,
        secret=sender.secret.value,
        delivery=delivery,
        datacenter=sender.flavor is Flavor.DATACENTER,
    )


async def post(gw: World, body: bytes, given: dict[str, Any]) -> tuple[int, str]:
    present = {name: value for name, value in given.items() if value is not None}
    return answer(await gw.client.post("/webhooks/mongo", content=body, headers=present))


async def send(gw: World, name: str, event: str, body: bytes, **over: Any) -> tuple[int, str]:
    delivery = over.pop("delivery", f"{name}-{event}-{hash(body)}")
    given = headers(name, event, body, delivery)
    return await post(gw, body, given | {key.replace("_", "-"): over[key] for key in over})


async def test_every_payload_is_accepted_and_becomes_its_events():
    """Sync invariant 9."""
    async with gateway() as gw:
        for path in FILES:
            written = json.loads(path.read_text())
            sender = PLATFORMS[path.parent.name]
            body = json.dumps(written["payload"]).encode()
            sent = await send(gw, path.parent.name, written["event"], body, delivery=path.stem)

            assert sent == (202, "accepted"), path
            call = gw.orchestrator.calls[-1]
            assert (call.platform, call.event) == (sender.name, written["event"])
            assert (call.delivery_id, call.raw_payload) == (path.stem, body)
            assert call.signature_verified
            events = normalize(sender, call.event, json.loads(call.raw_payload))
            common = {"platform": sender.name}
            assert [event.as_dict() for event in events] == [
                common | expected for expected in written["normalized"]
            ], path
            _check_effect(sender, written, events[0].action)

    assert {path.parent.name for path in FILES} == set(PLATFORMS) - {"github"}


def _check_effect(sender: Platform, written: dict[str, Any], action: str) -> None:
    if "effect" in written:
        assert str(git_platform(sender).effect(action)) == written["effect"]


@pytest.mark.parametrize(
    ("name", "event", "payload"),
    [
        ("github", "ping", {"zen": "Keep it logically awesome.", "hook_id": 1}),
        ("gitlab", "Issue Hook", {"object_kind": "issue"}),
        ("gitlab", "Pipeline Hook", {"object_kind": "pipeline"}),
        ("gitlab", "System Hook", {"event_name": "project_create"}),
        ("gitea", "create", {"ref": "v1", "ref_type": "tag"}),
        ("gitea", "delete", {"ref": "old", "ref_type": "branch"}),
        ("gitea", "repository", {"action": "created"}),
        ("bitbucket", "repo:fork", {"fork": {}}),
        ("bitbucket", "issue:created", {"issue": {}}),
        ("bitbucket_datacenter", "diagnostics:ping", {"test": True}),
        ("bitbucket_datacenter", "repo:comment:added", {"comment": {}}),
    ],
)
async def test_pings_and_other_events_are_ignored_once_their_sender_is_proven(name, event, payload):
    """Sync invariant 25."""
    async with gateway() as gw:
        body = json.dumps(payload).encode()
        assert await send(gw, name, event, body) == IGNORED
        assert await send(gw, name, event, b"no JSON at all") == IGNORED
        signature = {"gitlab": "X-Gitlab-Token", "gitea": "X-Gitea-Signature"}
        header = signature.get(name, "X-Hub-Signature")
        if name == "github":
            header = "X-Hub-Signature-256"
        assert await send(gw, name, event, body, **{header: None}) == INVALID
        assert not gw.orchestrator.calls


@pytest.mark.parametrize(
    ("name", "event", "payload"),
    [
        ("bitbucket", "repo:push", {"push": {"changes": []}, "repository": {}}),
        ("bitbucket_datacenter", "repo:refs_changed", {"changes": [], "repository": {}}),
    ],
)
async def test_a_push_without_a_change_is_ignored(name, event, payload):
    async with gateway() as gw:
        body = json.dumps(payload).encode()
        assert await send(gw, name, event, body) == IGNORED
        assert await send(gw, name, event, body, **{"X-Hub-Signature": None}) == INVALID
        assert not gw.orchestrator.calls
        assert not len(gw.gateway.pipeline.reservations.memory)


@pytest.mark.parametrize(
    ("name", "event", "payload", "missing"),
    [
        ("gitlab", "Push Hook", {"ref": "refs/heads/main"}, "project"),
        ("gitlab", "Tag Push Hook", {"project": {}}, "ref"),
        ("gitlab", "Merge Request Hook", {"project": {}}, "object_attributes"),
        ("gitea", "push", {"ref": "refs/heads/main"}, "repository"),
        ("gitea", "pull_request", {"repository": {}, "action": "opened"}, "pull_request"),
        ("bitbucket", "repo:push", {"repository": {}}, "push"),
        ("bitbucket", "pullrequest:created", {"repository": {}}, "pullrequest"),
        ("bitbucket_datacenter", "repo:refs_changed", {"repository": {}}, "changes"),
        ("bitbucket_datacenter", "pr:opened", {"date": "2026"}, "pullRequest"),
    ],
)
async def test_what_a_payload_lacks_is_named(name, event, payload, missing):
    async with gateway() as gw:
        body = json.dumps(payload).encode()
        given = headers(name, event, body, "d-1")
        response = await gw.client.post("/webhooks/mongo", content=body, headers=given)
        assert answer(response) == (400, "GW_PAYLOAD_VALIDATION")
        assert response.json()["message"] == f"the payload must contain {missing}"
        for broken in (b"", b"[]", b'{"ref": 1, "ref": 2}'):
            assert await send(gw, name, event, broken) == (400, "GW_INVALID_JSON")
        assert not gw.orchestrator.calls
        assert not len(gw.gateway.pipeline.reservations.memory)


def wrong_proofs() -> list[tuple[str, str, str, str | None]]:
    body = b"{}"
    sha = hex_hmac
    return [
        ("gitlab", "Push Hook", "X-Gitlab-Token", None),
        ("gitlab", "Push Hook", "X-Gitlab-Token", "gitlab-ke"),
        ("gitlab", "Push Hook", "X-Gitlab-Token", "GITLAB-KEY"),
        ("gitlab", "Push Hook", "X-Gitlab-Token", sha("gitlab-key", body)),
        ("gitea", "push", "X-Gitea-Signature", None),
        ("gitea", "push", "X-Gitea-Signature", "sha256=" + sha("gitea-key", body)),
        ("gitea", "push", "X-Gitea-Signature", sha("github-key", body)),
        ("bitbucket", "repo:push", "X-Hub-Signature", None),
        ("bitbucket", "repo:push", "X-Hub-Signature", sha("cloud-key", body)),
        ("bitbucket", "repo:push", "X-Hub-Signature", "sha256=" + sha("another", body)),
        ("bitbucket", "repo:push", "X-Hub-Signature", "sha1=" + "0" * 40),
        ("bitbucket_datacenter", "repo:refs_changed", "X-Hub-Signature", None),
        ("bitbucket_datacenter", "repo:refs_changed", "X-Hub-Signature", "sha512=" + "0" * 128),
    ]


async def test_the_proof_of_another_form_or_key_is_none():
    """Sync invariant 25."""
    async with gateway() as gw:
        for name, event, header, value in wrong_proofs():
            assert await send(gw, name, event, b"{}", **{header: value}) == INVALID, (name, value)
        assert not gw.orchestrator.calls


async def test_headers_of_two_platforms_count_in_their_order():
    """Gitea sends GitHub's event header beside its own: it is Gitea's secret that counts."""
    async with gateway() as gw:
        body = (FOLDER / "gitea" / "push.json").read_bytes()
        payload = json.dumps(json.loads(body)["payload"]).encode()
        given = headers("gitea", "push", payload, "g-1")
        both = given | {"X-Hub-Signature-256": "sha256=" + hex_hmac("github-key", payload)}
        assert await post(gw, payload, both | {"X-Gitea-Signature": "0" * 64}) == INVALID
        assert await post(gw, payload, both) == (202, "accepted")
        assert gw.orchestrator.calls[0].platform == "gitea"
        neither = {"Content-Type": "application/json", "X-Gogs-Event": "push"}
        assert await post(gw, payload, neither) == (400, "GW_PLATFORM_MISMATCH")
