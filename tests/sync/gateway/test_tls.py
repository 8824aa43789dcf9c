"""TLS on both sides, and starts that are refused (reference: sync-stack 2.10)."""

from __future__ import annotations

import asyncio
import json
import ssl

import httpx
import pytest

from sync_stack.configuration.startup import StartRefused
from sync_stack.gateway.conf import read_settings
from sync_stack.gateway.process import Gateway
from sync_stack.rpc.tls import TlsFiles, server_credentials
from tests.support.webhooks import github_push, platform, signed
from tests.sync.gateway.certificates import Authority
from tests.sync.gateway.world import Orchestrator, Resolver, answer, bundle, raw, serving, world

PATH = "/webhooks/mongo"


@pytest.fixture
def authority(tmp_path) -> Authority:
    return Authority(tmp_path)


async def tls_post(port: int, context: ssl.SSLContext) -> httpx.Response:
    url = f"https://localhost:{port}{PATH}"
    async with httpx.AsyncClient(verify=context) as client:
        return await client.post(url, content=github_push(), headers=signed(github_push()))


async def test_webhooks_over_tls_and_a_new_certificate_without_a_restart(authority, tmp_path):
    files = authority.pair("inbound")
    context = ssl.create_default_context(cafile=str(authority.file))
    async with world(inbound_tls=files) as gw:
        assert answer(await tls_post(gw.port, context)) == (202, "accepted")
        other = Authority(tmp_path, "other-ca")
        other.pair("inbound")
        assert gw.gateway.tls is not None
        gw.gateway.tls.reload()
        with pytest.raises(httpx.ConnectError):
            await tls_post(gw.port, context)
        trusting = ssl.create_default_context(cafile=str(other.file))
        assert answer(await tls_post(gw.port, trusting)) == (401, "GW_REPLAY_DETECTED")
        files.key.write_text("half written")
        gw.gateway.tls.reload()
        assert (await tls_post(gw.port, trusting)).status_code == 401


async def test_plain_http_and_old_tls_are_turned_away(authority):
    files = authority.pair("inbound")
    async with world(inbound_tls=files) as gw:
        came = await raw(gw.port, b"POST /webhooks/mongo HTTP/1.1\r\nHost: x\r\n\r\n")
        head, _, body = came.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert "https://" in json.loads(body)["message"]
        context = ssl.create_default_context(cafile=str(authority.file))
        with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
            context.minimum_version = ssl.TLSVersion.TLSv1
        with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(httpx.ConnectError):
            await tls_post(gw.port, context)
        silent = asyncio.create_task(raw(gw.port))
        good = ssl.create_default_context(cafile=str(authority.file))
        assert (await tls_post(gw.port, good)).status_code == 202
        silent.cancel()


async def outcome(authority: Authority, client, tmp_path) -> int:
    server = authority.pair("orchestrator-api")
    orchestrator = Orchestrator()
    async with (
        serving(orchestrator, credentials=server_credentials(server)) as port,
        world(orchestrator=Orchestrator(), grpc_tls=client) as gw,
    ):
        gateway = gw.gateway
        gateway.channel.address = f"localhost:{port}"
        gateway.channel._replace()
        return (await gw.send()).status_code


async def test_calls_show_a_certificate_that_the_orchestrator_knows(authority, tmp_path):
    """Sync invariant 27."""
    stranger = Authority(tmp_path, "stranger")

    assert await outcome(authority, authority.pair("gateway"), tmp_path) == 202
    assert await outcome(authority, None, tmp_path) == 502
    foreign = stranger.pair("foreign", ca=authority.file)
    assert await outcome(authority, foreign, tmp_path) == 502
    assert await outcome(authority, authority.pair("late", days=-1), tmp_path) == 502
    distrusting = authority.pair("gateway", ca=stranger.file)
    assert await outcome(authority, distrusting, tmp_path) == 502


PRODUCTION = {"APP_ENV": "production", "CONFIG_PATH": "config.cue"}


def refusal(variables: dict[str, str]) -> str:
    with pytest.raises(StartRefused) as caught:
        read_settings(variables)
    return "\n".join(caught.value.lines)


def test_production_starts_only_with_both_pairs():
    """Sync invariant 26."""
    said = refusal(PRODUCTION)
    assert "GATEWAY_TLS_CERT and GATEWAY_TLS_KEY: required with APP_ENV=production" in said
    assert "GRPC_TLS_CERT and GRPC_TLS_KEY: required with APP_ENV=production" in said


def test_half_a_pair_and_wrong_values_are_named_together():
    said = refusal(
        {
            "GATEWAY_TLS_CERT": "a.pem",
            "GRPC_TLS_CA": "ca.pem",
            "GATEWAY_ADDR": "nonsense",
            "GATEWAY_RATE_PER_IP": "fast",
            "GATEWAY_FORWARD_TIMEOUT": "21s",
            "GATEWAY_TRUSTED_PROXIES": "10.0.0.0/33",
            "GATEWAY_MAX_BODY_BYTES": "-1",
        }
    )
    for name in ("GATEWAY_TLS_KEY", "GRPC_TLS_CERT", "GATEWAY_ADDR", "GATEWAY_RATE_PER_IP"):
        assert name in said
    assert len(said.splitlines()) == 7


def test_generated_pairs_count(authority, tmp_path):
    authority.pair("client")
    authority.pair("inbound")
    made = read_settings({**PRODUCTION, "TLS_AUTO_DIR": str(tmp_path)})
    assert made.grpc_tls is not None
    assert made.inbound_tls is not None
    assert made.grpc_tls.ca == tmp_path / "ca.crt"
    development = read_settings({"APP_ENV": "development", "TLS_AUTO_DIR": str(tmp_path)})
    assert development.inbound_tls is None


async def test_production_refuses_platforms_without_a_secret(authority):
    """Sync invariant 26."""
    variables = {**PRODUCTION, "TLS_AUTO_DIR": str(authority.folder)}
    authority.pair("client")
    authority.pair("inbound")
    with pytest.raises(StartRefused, match="platform github: secret: required"):
        Gateway(read_settings(variables), bundle(platform(secret=None)), Resolver())


async def test_certificates_that_cannot_be_used_stop_the_start(authority, tmp_path):
    files = authority.pair("inbound")
    files = TlsFiles(cert=files.cert, key=authority.pair("another").key)
    with pytest.raises(StartRefused, match="GATEWAY_TLS_CERT"):
        async with world(inbound_tls=files):
            pass
