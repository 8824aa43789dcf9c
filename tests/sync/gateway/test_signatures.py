"""Who may send: each platform's proof, and what never passes (reference: sync-stack 2.5)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from dataclasses import replace

import pytest

from sync_stack.core.bundle.platforms import Flavor
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.gateway import delivery_checks
from tests.support.webhooks import (
    cloud_push,
    datacenter_push,
    github_push,
    gitlab_push,
    gitlab_signed,
    hex_hmac,
    platform,
    signed,
)
from tests.sync.gateway.world import answer, bundle, world

KEY = b"0123456789abcdef0123456789abcdef"
WHSEC = "whsec_" + base64.b64encode(KEY).decode()
INVALID = (401, "GW_SIGNATURE_INVALID")


async def post(gw, body: bytes, headers) -> tuple[int, str]:
    return answer(await gw.client.post("/webhooks/mongo", content=body, headers=headers))


@pytest.mark.parametrize(
    "proof",
    [
        "",
        "sha256=",
        "sha256=" + "0" * 64,
        "sha256=" + "é" * 32,
        hex_hmac("s3cret-key", github_push()),
        "sha1=" + hmac.new(b"s3cret-key", github_push(), "sha1").hexdigest(),
        "md5=" + hashlib.md5(github_push()).hexdigest(),
        "sha256=" + hex_hmac("another key", github_push()),
        "sha256=" + hex_hmac("s3cret-key", github_push() + b" "),
        "SHA256=" + hex_hmac("s3cret-key", github_push()),
    ],
)
async def test_a_wrong_signature_reaches_nothing(proof, monkeypatch):
    """Sync invariant 25."""

    async def never(*_args, **_kwargs):
        raise AssertionError

    monkeypatch.setattr(delivery_checks, "read_payload", never)
    async with world() as gw:
        headers = {**signed(github_push()), "X-Hub-Signature-256": proof.encode("latin-1")}
        headers["X-Hub-Signature"] = (
            "sha1=" + hmac.new(b"s3cret-key", github_push(), "sha1").hexdigest()
        )
        assert await post(gw, github_push(), headers) == INVALID
        assert len(gw.gateway.pipeline.reservations.memory) == 0
        assert not gw.orchestrator.calls


async def test_a_repeated_signature_is_invalid():
    """Sync invariant 25."""
    async with world() as gw:
        good = signed(github_push())
        twice = [*good.items(), ("X-Hub-Signature-256", good["X-Hub-Signature-256"])]
        assert await post(gw, github_push(), twice) == INVALID


async def test_the_previous_secret_counts_during_a_rotation():
    both = platform(secret="new-secret", secret_previous=SecretRef(value="old-secret"))
    async with world(bundle(both)) as gw:
        assert answer(await gw.send(secret="old-secret"))[0] == 202
        assert answer(await gw.send(github_push(n=1), secret="new-secret", delivery="2"))[0] == 202
        assert answer(await gw.send(github_push(n=2), secret="older", delivery="3")) == INVALID


async def test_gitea_signs_in_bare_hex_and_counts_before_github():
    gitea = platform("gitea", secret="gitea-key")
    async with world(bundle(platform(), gitea)) as gw:
        body = github_push()
        forgejo = {
            "Content-Type": "application/json",
            "X-Forgejo-Event": "push",
            "X-Gitea-Event": "push",
            "X-Forgejo-Delivery": "f-1",
            "X-Forgejo-Signature": hex_hmac("gitea-key", body),
            "X-Gitea-Signature": "0" * 64,
        }
        assert answer(await gw.send(body, kind="gitea", secret="gitea-key"))[0] == 202
        assert gw.orchestrator.calls[0].platform == "gitea"
        assert await post(gw, github_push(n=1), forgejo) == INVALID
        forgejo["X-Forgejo-Signature"] = hex_hmac("gitea-key", github_push(n=1))
        assert (await post(gw, github_push(n=1), forgejo))[0] == 202


async def test_bitbucket_cloud_and_data_center():
    cloud = platform("bitbucket", secret="cloud-key")
    server = platform("bitbucket", name="server", flavor=Flavor.DATACENTER, secret="server-key")
    async with world(bundle(cloud, server)) as gw:
        body = json.dumps(cloud_push()).encode()
        sent = await gw.send(body, kind="bitbucket", event="repo:push", secret="cloud-key")
        assert answer(sent)[0] == 202
        body = json.dumps(datacenter_push()).encode()
        sent = await gw.send(
            body,
            kind="bitbucket",
            event="repo:refs_changed",
            secret="server-key",
            datacenter=True,
        )
        assert answer(sent)[0] == 202
        assert [call.platform for call in gw.orchestrator.calls] == ["bitbucket", "server"]
        sha1 = {**signed(body, kind="bitbucket", event="repo:push")}
        sha1["X-Hub-Signature"] = "sha1=" + "0" * 40
        assert await post(gw, body, sha1) == INVALID


async def test_gitlab_tokens():
    async with world(bundle(platform("gitlab"))) as gw:
        body = json.dumps(gitlab_push()).encode()
        for event in ("Push Hook", "Tag Push Hook"):
            sent = await gw.send(body, kind="gitlab", event=event, delivery=event)
            assert answer(sent)[0] == 202
        wrong = await gw.send(body, kind="gitlab", event="Push Hook", secret="s3cret-ke")
        assert answer(wrong) == INVALID
        again = await gw.send(body, kind="gitlab", event="Push Hook", delivery="Push Hook")
        assert answer(again) == (401, "GW_REPLAY_DETECTED")


@pytest.mark.parametrize("field", ["secret", "signing_secret"])
async def test_gitlab_signing_tokens_replace_the_token_header(field):
    """Sync invariant 25."""
    gitlab = platform("gitlab", secret=WHSEC if field == "secret" else None)
    if field == "signing_secret":
        gitlab = replace(gitlab, signing_secret=SecretRef(value=WHSEC))
    body = json.dumps(gitlab_push()).encode()
    async with world(bundle(gitlab)) as gw:
        good = gitlab_signed(body, key=KEY)
        rotated = {**gitlab_signed(body, key=KEY, delivery="msg-2")}
        rotated["webhook-signature"] = "v1,AAAA v2,x " + rotated["webhook-signature"]
        assert (await post(gw, body, good))[0] == 202
        assert (await post(gw, body, rotated))[0] == 202
        assert await post(gw, body, {**good, "webhook-id": "msg-3"}) == INVALID
        assert await post(gw, body + b" ", good) == INVALID
        unsigned = {k: v for k, v in good.items() if k != "webhook-signature"}
        assert await post(gw, body, {**unsigned, "X-Gitlab-Token": WHSEC}) == INVALID
        for at in (time.time() - 301, time.time() + 40):
            old = gitlab_signed(body, key=KEY, delivery="msg-4", at=at)
            assert await post(gw, body, old) == (401, "GW_REPLAY_DETECTED")


async def test_of_several_platforms_of_one_kind_the_one_whose_key_fits_is_the_sender():
    one = platform(name="github-one", secret="secret-one")
    two = platform(name="github-two", secret="secret-two")
    async with world(bundle(one, two)) as gw:
        assert answer(await gw.send(secret="secret-two"))[0] == 202
        assert gw.orchestrator.calls[0].platform == "github-two"
        assert answer(await gw.send(secret="neither", delivery="2")) == INVALID


async def test_without_a_secret_a_delivery_is_taken_unverified_outside_production_only():
    async with world(bundle(platform(secret=None))) as gw:
        assert answer(await gw.send())[0] == 202
        assert not gw.orchestrator.calls[0].signature_verified
        gw.gateway.pipeline.production = True
        assert answer(await gw.send(github_push(n=1), delivery="2")) == INVALID


async def test_no_secret_shows_in_answers_metrics_or_logs(caplog):
    """Sync invariant 24."""
    async with world() as gw:
        caplog.set_level("DEBUG")
        texts = [(await gw.send()).text, (await gw.send(secret="wrong")).text]
        texts += [await gw.metrics(), caplog.text]
        call = gw.orchestrator.calls[0]
        assert not any("signature" in name or "token" in name for name in call.headers)
        for text in texts:
            assert "s3cret-key" not in text
