"""Vault's API as its documentation has it (tests/support/fake_vault.py)."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from kernel.vault import Vault, VaultError, VaultUnavailable, read_secret
from tests.support.fake_vault import FakeVault
from tests.support.http_threads import serve_http

TOKEN = "hvs.the-token-of-the-test"
FIELDS = {"token": "s3cret-value", "port": 5432}


@pytest.fixture
def server() -> Iterator[FakeVault]:
    made = FakeVault()
    made.behaviour.tokens.add(TOKEN)
    made.behaviour.secrets["kv/data/team/psp"] = FIELDS
    yield made
    made.close()


def vault(server: FakeVault, **facts: Any) -> Vault:
    return Vault(**{"address": server.url, "token": TOKEN, **facts})


async def test_version_2_of_the_engine_is_asked_first(server: FakeVault):
    assert await read_secret(vault(server), "kv/team/psp") == FIELDS
    assert server.behaviour.requests == ["GET kv/data/team/psp"]


async def test_what_version_2_does_not_have_may_be_of_version_1(server: FakeVault):
    server.behaviour.kv_version = 1
    server.behaviour.secrets = {"kv/team/psp": FIELDS}

    assert await read_secret(vault(server), "kv/team/psp") == FIELDS


async def test_a_secret_of_version_1_below_data_is_not_taken_for_version_2(server: FakeVault):
    server.behaviour.kv_version = 1
    server.behaviour.secrets = {"kv/data/psp": {"other": "one"}, "kv/psp": FIELDS}

    assert await read_secret(vault(server), "kv/psp") == FIELDS


async def test_the_namespace_goes_along(server: FakeVault):
    server.behaviour.namespace = "team-a"

    assert await read_secret(vault(server, namespace="team-a"), "kv/team/psp") == FIELDS
    with pytest.raises(VaultError, match="the secret does not exist"):
        await read_secret(vault(server), "kv/team/psp")


async def test_without_a_token_the_kubernetes_role_signs_in(server: FakeVault, tmp_path: Path):
    jwt = tmp_path / "token"
    jwt.write_text("the-jwt\n")
    login = {"role": "partita", "jwt": "the-jwt"}
    server.behaviour.logins["auth/kubernetes/login"] = login

    by_role = vault(server, token="", role="partita", service_token=jwt)
    assert await read_secret(by_role, "kv/team/psp") == FIELDS

    jwt.write_text("another")
    with pytest.raises(VaultError, match=r"the sign-in with role partita is refused \(400\)"):
        await read_secret(by_role, "kv/team/psp")


async def test_without_any_way_in_nobody_is_asked(server: FakeVault, tmp_path: Path):
    missing = tmp_path / "none"
    with pytest.raises(VaultError, match="neither a token nor a role"):
        await read_secret(vault(server, token=""), "kv/team/psp")
    with pytest.raises(VaultError, match="none cannot be read"):
        await read_secret(
            vault(server, token="", role="partita", service_token=missing), "kv/team/psp"
        )
    assert server.behaviour.requests == []


@pytest.mark.parametrize("path", ["auth/token/lookup-self", "sys/raw", "cubbyhole/x", "identity/x"])
async def test_what_vault_keeps_of_itself_is_no_secret(server: FakeVault, path: str):
    """Invariant 19: `auth/token/lookup-self` answers with the token."""
    server.behaviour.secrets |= {path: FIELDS}

    with pytest.raises(VaultError, match="is not a mount of a key-value engine"):
        await read_secret(vault(server), path)

    assert server.behaviour.requests == []


async def test_failures_are_named_by_their_kind_and_hold_no_token(server: FakeVault):
    """Invariant 19."""
    with pytest.raises(VaultError) as missing:
        await read_secret(vault(server), "kv/nowhere")
    with pytest.raises(VaultError) as refused:
        await read_secret(vault(server, token="hvs.a-wrong-token"), "kv/team/psp")
    server.behaviour.failures = [503]
    with pytest.raises(VaultUnavailable) as sealed:
        await read_secret(vault(server), "kv/team/psp")

    said = [str(error.value) for error in (missing, refused, sealed)]
    assert said == ["the secret does not exist", "access denied", "the server failed (503)"]
    assert TOKEN not in repr(vault(server))


async def test_a_server_that_hangs_is_given_up(server: FakeVault):
    """Invariant 5."""
    server.behaviour.delay_s = 1.0
    with pytest.raises(VaultUnavailable, match=r"no answer within 0\.2 s"):
        await read_secret(vault(server), "kv/team/psp", within_s=0.2)


async def test_a_server_that_is_not_there_is_away():
    with pytest.raises(VaultUnavailable, match=r"cannot be reached \(ConnectError\)"):
        await read_secret(Vault(address="http://127.0.0.1:9", token=TOKEN), "kv/psp")


@pytest.mark.parametrize(
    "address", ["http://169.254.169.254", "http://[::ffff:169.254.169.254]:80", "vault:8200", ""]
)
async def test_an_address_where_the_server_may_not_go_is_refused(address: str):
    """Invariant 23."""
    with pytest.raises(VaultError, match="the address cannot be used"):
        await read_secret(Vault(address=address, token=TOKEN), "kv/psp")


async def test_a_name_that_leads_to_link_local_is_not_connected_to():
    """Invariant 23."""
    with pytest.raises(VaultError):
        await read_secret(
            Vault(address="http://vault.example", token=TOKEN),
            "kv/psp",
            resolver=lambda _name, _port: (ip_address("169.254.169.254"),),
        )


class _Elsewhere(BaseHTTPRequestHandler):
    """Sends everybody on, and says things that are no JSON."""

    answer: tuple[int, str, bytes] = (307, "http://127.0.0.1:1/v1/kv/data/psp", b"")

    def do_GET(self) -> None:
        status, location, body = self.answer
        self.send_response(status)
        self.send_header("Location", location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: Any) -> None:
        """Silent."""


@pytest.fixture
def elsewhere() -> Iterator[tuple[type[_Elsewhere], str]]:
    class Handler(_Elsewhere):
        pass

    with serve_http(Handler) as server:
        yield Handler, f"http://127.0.0.1:{server.server_port}"


async def test_a_redirect_is_not_followed(elsewhere: tuple[type[_Elsewhere], str]):
    """Invariant 22: the token stays with its server."""
    with pytest.raises(VaultError, match="a redirect, which is not followed"):
        await read_secret(Vault(address=elsewhere[1], token=TOKEN), "kv/psp")


@pytest.mark.parametrize("body", [b"<html>", b"[" * 100_000, b"x" * (2**20 + 1)])
async def test_what_is_no_answer_of_a_vault_is_an_error(
    elsewhere: tuple[type[_Elsewhere], str], body: bytes
):
    """Invariant 33."""
    elsewhere[0].answer = (200, "", body)
    with pytest.raises(VaultError):
        await read_secret(Vault(address=elsewhere[1], token=TOKEN), "kv/psp")
