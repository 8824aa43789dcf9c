"""Secrets from a server that speaks Vault's API (see tests/support/fake_vault.py)."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from kernel.redaction import SecretRegister
from sync_stack.configuration.secrets import SecretAbsent, SecretResolver, SecretUnavailable
from sync_stack.configuration.vault import VaultClient
from sync_stack.core.bundle.secret_managers import (
    AppRoleAuth,
    KubernetesAuth,
    SecretManager,
    TokenAuth,
    UserpassAuth,
)
from sync_stack.core.bundle.secrets import SecretRef
from tests.support.bundles import read_changed, valid
from tests.support.fake_vault import FakeVault

REF = SecretRef(path="apps/shop", key="password", manager="vault")
ROUTE = "GET secret/data/apps/shop"
TOKEN = "hvs.the-root-token"


@pytest.fixture
def vault():
    server = FakeVault()
    server.behaviour.tokens.add(TOKEN)
    server.behaviour.secrets["secret/data/apps/shop"] = {"password": "s3cret-value", "port": 5432}
    yield server
    server.close()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def open_resolver(vault):
    made = []

    def make(auth=None, *, timeout_s=10.0, **settings):
        resolver = SecretResolver(
            VaultClient,
            variables={"ROLE_SECRET": "the-secret-id"},
            register=SecretRegister(),
            clock=Clock(),
            timeout_s=timeout_s,
        )
        manager = SecretManager(
            name="vault",
            endpoint=vault.url,
            auth=auth or TokenAuth(token=SecretRef(value=TOKEN)),
            **{"max_retries": 0, "timeout_s": 2.0, **settings},
        )
        bundle = replace(valid(read_changed(lambda _bundle: None)), secret_managers=(manager,))
        resolver.use(bundle)
        made.append(resolver)
        return resolver

    yield make
    for resolver in made:
        resolver.close()


def test_a_value_is_fetched_once_in_five_minutes(vault, open_resolver):
    resolver = open_resolver()

    assert [resolver.resolve(REF) for _ in range(3)] == ["s3cret-value"] * 3
    assert vault.behaviour.count(ROUTE) == 1
    resolver._clock.now = 301
    resolver.resolve(REF)
    assert vault.behaviour.count(ROUTE) == 2


def test_what_was_fetched_is_masked_from_then_on(open_resolver):
    """Sync invariant 24."""
    resolver = open_resolver()
    resolver.resolve(REF)

    assert resolver._register.mask("got s3cret-value") == "got ***"


def test_a_user_name_that_was_fetched_is_not_masked(open_resolver):
    resolver = open_resolver()
    resolver.resolve(replace(REF, masked=False))

    assert resolver._register.mask("got s3cret-value") == "got s3cret-value"


def test_callers_at_the_same_time_share_one_fetch(vault, open_resolver):
    vault.behaviour.delay_s = 0.1
    resolver, got = open_resolver(), []
    threads = [threading.Thread(target=lambda: got.append(resolver.resolve(REF))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert got == ["s3cret-value"] * 8
    assert vault.behaviour.count(ROUTE) == 1


def test_a_failure_is_not_kept(vault, open_resolver):
    resolver = open_resolver()
    resolver.resolve(SecretRef(path="apps/shop", key="port", manager="vault"))
    vault.behaviour.failures = [500]

    with pytest.raises(SecretUnavailable, match="the server failed"):
        resolver.resolve(REF)
    assert resolver.resolve(REF) == "s3cret-value"


def test_requests_are_repeated_as_often_as_allowed(vault, open_resolver):
    vault.behaviour.failures = [503, 503]

    assert open_resolver(max_retries=2).resolve(REF) == "s3cret-value"


@pytest.mark.timed
def test_a_server_that_does_not_answer_costs_no_more_than_the_limit(vault, open_resolver):
    vault.behaviour.delay_s = 1.0
    began = time.monotonic()

    with pytest.raises(SecretUnavailable, match="no answer within"):
        open_resolver(timeout_s=0.2).resolve(REF)
    assert time.monotonic() - began < 0.9


@pytest.mark.parametrize(
    ("path", "key", "why"),
    [
        ("apps/other", "password", "does not exist"),
        ("apps/shop", "nothing", "does not exist"),
        ("apps/../shop", "password", "not a valid path"),
        ("apps/%2e%2e/shop", "password", "not a valid path"),
        ("apps/shop?version=1", "password", "not a valid path"),
    ],
)
def test_what_is_not_there_or_no_path_is_refused_for_good(open_resolver, path, key, why):
    with pytest.raises(SecretAbsent, match=why):
        open_resolver().resolve(SecretRef(path=path, key=key, manager="vault"))


def test_numbers_are_texts(open_resolver):
    ref = SecretRef(path="apps/shop", key="port", manager="vault")

    assert open_resolver().resolve(ref) == "5432"


def test_an_engine_of_version_one_at_another_mount_in_a_namespace(vault, open_resolver):
    vault.behaviour.kv_version, vault.behaviour.namespace = 1, "team-a"
    vault.behaviour.secrets["kv/apps/shop"] = {"password": "old-engine"}
    resolver = open_resolver(kv_version=1, mount_point="kv", namespace="team-a")

    assert resolver.resolve(REF) == "old-engine"


def test_a_prefix_may_hold_names_of_the_unit(vault, open_resolver):
    vault.behaviour.secrets["secret/data/prod/apps/shop"] = {"password": "of-prod"}
    resolver = open_resolver(path_prefix="{env}")

    assert resolver.resolve(REF, {"env": "prod"}) == "of-prod"
    with pytest.raises(SecretUnavailable, match="'env', which has no value here"):
        resolver.resolve(REF)
    with pytest.raises(SecretUnavailable, match="not a valid path"):
        resolver.resolve(REF, {"env": ".."})


def test_a_path_of_a_file_that_names_the_prefix_itself_is_taken_as_it_is(vault, open_resolver):
    vault.behaviour.secrets["secret/data/prod/apps/shop"] = {"password": "of-prod"}
    resolver = open_resolver(path_prefix="{env}")
    ref = SecretRef(path="prod/apps/shop", key="password", manager="vault")

    assert resolver.resolve(ref, {"env": "prod"}) == "of-prod"


def test_ways_to_sign_in(vault, open_resolver, tmp_path):
    (tmp_path / "jwt").write_text("the-jwt\n")
    vault.behaviour.logins = {
        "auth/approle/login": {"role_id": "r", "secret_id": "the-secret-id"},
        "auth/k8s/login": {"role": "shop", "jwt": "the-jwt"},
        "auth/userpass/login/ann": {"password": "pw"},
    }
    secret_id = SecretRef(env="ROLE_SECRET")
    for auth in (
        AppRoleAuth(role_id=SecretRef(value="r"), secret_id=secret_id),
        KubernetesAuth(role="shop", jwt_path=str(tmp_path / "jwt"), mount_path="k8s"),
        UserpassAuth(username=SecretRef(value="ann"), password=SecretRef(value="pw")),
    ):
        assert open_resolver(auth).resolve(REF) == "s3cret-value"


def test_refused_credentials_say_no_more_than_that(open_resolver):
    with pytest.raises(SecretUnavailable) as refused:
        open_resolver(TokenAuth(token=SecretRef(value="wrong-token"))).resolve(REF)

    assert str(refused.value) == "vault: apps/shop: access is refused"


def test_credentials_that_cannot_be_read_are_named(open_resolver):
    with pytest.raises(SecretUnavailable, match="environment variable NOPE is not set"):
        open_resolver(TokenAuth(token=SecretRef(env="NOPE"))).resolve(REF)


def test_a_revoked_token_is_replaced_by_a_new_sign_in(vault, open_resolver):
    vault.behaviour.logins = {"auth/userpass/login/ann": {"password": "pw"}}
    resolver = open_resolver(
        UserpassAuth(username=SecretRef(value="ann"), password=SecretRef(value="pw"))
    )
    resolver.resolve(REF)
    vault.behaviour.tokens.clear()
    resolver.forget(REF)

    assert resolver.resolve(REF) == "s3cret-value"
    assert vault.behaviour.count("POST auth/userpass/login/ann") == 2


def test_a_token_is_renewed_at_half_its_life(vault, open_resolver):
    vault.behaviour.lease_s = 2
    open_resolver().resolve(REF)
    deadline = time.monotonic() + 5
    while not vault.behaviour.count("POST auth/token/renew-self") and time.monotonic() < deadline:
        time.sleep(0.02)

    assert vault.behaviour.count("POST auth/token/renew-self") >= 1


def test_what_the_environment_says_about_vault_is_not_used(vault, open_resolver, monkeypatch):
    monkeypatch.setenv("VAULT_TOKEN", TOKEN)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    vault.behaviour.logins = {"auth/userpass/login/ann": {"password": "pw"}}
    resolver = open_resolver(
        UserpassAuth(username=SecretRef(value="ann"), password=SecretRef(value="pw"))
    )

    assert resolver.resolve(REF) == "s3cret-value"
    assert vault.behaviour.requests[0] == "POST auth/userpass/login/ann"
