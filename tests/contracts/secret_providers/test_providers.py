"""What every provider of secrets does: Vault by a double, AWS Secrets Manager by moto's server."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from apps.platform_settings.api import (
    SecretUnreadable,
    check_secret_provider,
    known_secret_providers,
    provider_of,
    secret_provider_titles,
    secret_value,
)
from apps.platform_settings.domain.secrets import secret_providers
from apps.platform_settings.secret_providers.aws import forget_clients
from apps.platform_settings.services.manager_cache import manager_cache
from kernel.redaction import known_secrets
from tests.support.fake_vault import FakeVault

VALUE = "s3cret-value-of-psp"
TOKEN = "hvs.the-token-of-the-test"


@dataclass(frozen=True)
class Stage:
    """A provider with a secret; `plain` and `member` name the same value."""

    name: str  # in the registry
    provider: str  # in a secretRef
    plain: str
    member: str = ""
    outside: tuple[str, ...] = ("../psp", "a/../psp", "/psp", "psp//x", ".", "")
    hidden: tuple[str, ...] = field(default=())  # texts that no message may hold


@pytest.fixture(autouse=True)
def _file(settings: Any, tmp_path: Path, transactional_db: None) -> Iterator[None]:
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    manager_cache.forget()
    yield
    manager_cache.forget()


def use(settings: Any, managers: str) -> None:
    settings.PLATFORM_SETTINGS_FILE.write_text(f"secrets: {{{managers}}}\n")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setenv("PARTITA_SECRET_PSP", VALUE)
    monkeypatch.setenv("PSP", "of-the-server")
    return Stage("environment", "local", "psp", outside=("HOME", "../HOME", "JWT_SECRET", ""))


@pytest.fixture
def files(settings: Any, tmp_path: Path) -> Stage:
    folder = tmp_path / "secrets"
    (folder / "..data").mkdir(parents=True)
    (folder / "..data" / "psp").write_text(f"{VALUE}\n")
    (folder / "psp").symlink_to("..data/psp")  # as Kubernetes does
    (folder / "team.json").write_text(f'{{"token": "{VALUE}"}}')
    settings.SECRET_FILES_DIR = str(folder)
    return Stage("file", "file", "psp", "team.json#token", hidden=(str(tmp_path),))


@pytest.fixture
def vault(settings: Any) -> Iterator[Stage]:
    server = FakeVault()
    server.behaviour.tokens.add(TOKEN)
    server.behaviour.secrets |= {
        "kv/data/psp": {"value": VALUE},
        "kv/data/team": {"token": VALUE, "user": "ada"},
    }
    settings.VAULT_TOKEN = TOKEN
    use(settings, f'vaultAddress: "{server.url}", secretPrefix: kv')
    yield Stage("vault", "vault", "psp", "team#token", hidden=(TOKEN,))
    server.close()


@pytest.fixture
def aws(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = ThreadedMotoServer("127.0.0.1", port, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    environment = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing-key"}
    environment["AWS_ENDPOINT_URL_SECRETS_MANAGER"] = f"http://127.0.0.1:{port}"
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    use(settings, "awsRegion: eu-central-1")
    forget_clients()
    client = boto3.session.Session().client("secretsmanager", region_name="eu-central-1")
    client.create_secret(Name="psp", SecretString=VALUE)
    client.create_secret(Name="team", SecretString=f'{{"token": "{VALUE}"}}')
    yield Stage(
        "aws-secrets-manager", "aws-secrets-manager", "psp", "team#token", hidden=("testing-key",)
    )
    forget_clients()
    for name in ("psp", "team"):
        client.delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)
    client.close()
    server.stop()


@pytest.fixture(params=["environment", "files", "vault", "aws"])
def stage(request: pytest.FixtureRequest) -> Stage:
    made: Stage = request.getfixturevalue(request.param)
    return made


def test_the_tests_know_every_provider() -> None:
    assert sorted(secret_providers) == ["aws-secrets-manager", "environment", "file", "vault"]
    assert list(secret_provider_titles()) == sorted(secret_providers)
    assert set(known_secret_providers()) == {
        "local", "secrets", "file", "vault", "aws-secrets-manager",
    }  # fmt: skip


def test_a_secret_is_read_and_masked_from_then_on(stage: Stage) -> None:
    assert secret_value(stage.provider, stage.plain) == VALUE
    assert known_secrets.mask(f"got {VALUE}") == "got ***"


def test_a_member_of_a_secret_is_read(stage: Stage) -> None:
    if not stage.member:
        pytest.skip("has no members")
    assert secret_value(stage.provider, stage.member) == VALUE


def test_what_it_does_not_have_is_refused_without_a_value(stage: Stage) -> None:
    """Invariant 19."""
    for ref in ("nowhere", "nowhere#token", *([f"{stage.member}s"] if stage.member else [])):
        with pytest.raises(SecretUnreadable) as refused:
            secret_value(stage.provider, ref)
        assert VALUE not in str(refused.value)
        assert not [text for text in stage.hidden if text in str(refused.value)]


def test_no_reference_leads_elsewhere(stage: Stage) -> None:
    """Invariant 21."""
    for ref in stage.outside:
        with pytest.raises(SecretUnreadable):
            secret_value(stage.provider, ref)


def test_its_connection_can_be_tested(stage: Stage) -> None:
    answer = check_secret_provider(stage.name)

    assert answer
    assert not [text for text in (VALUE, *stage.hidden) if text in answer]


def test_a_provider_that_is_not_set_up_says_so(settings: Any, monkeypatch: Any) -> None:
    for name in [name for name in os.environ if name.startswith("PARTITA_SECRET_")]:
        monkeypatch.delenv(name)
    for provider in ("vault", "file"):
        with pytest.raises(SecretUnreadable, match="is not set"):
            secret_value(provider, "psp")
        with pytest.raises(SecretUnreadable, match="is not set"):
            check_secret_provider(provider)
    with pytest.raises(SecretUnreadable):
        check_secret_provider("environment")


def test_an_unknown_provider_is_told_apart() -> None:
    assert provider_of("cupboard", "psp") is None
    with pytest.raises(SecretUnreadable, match="unknown provider"):
        secret_value("cupboard", "psp")


def test_a_vault_that_refuses_fails_the_test_of_its_connection(vault: Stage, settings: Any) -> None:
    settings.VAULT_TOKEN = "hvs.another"

    with pytest.raises(SecretUnreadable, match="access denied"):
        check_secret_provider("vault")


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "large", "binary", "empty"])
def test_only_small_text_files_of_the_folder_are_read(
    files: Stage, settings: Any, tmp_path: Path, kind: str
) -> None:
    """Invariant 37: a pipe does not wait for its writer."""
    place = Path(settings.SECRET_FILES_DIR) / "odd"
    (tmp_path / "elsewhere").write_text("of-the-host")
    make = {
        "link": lambda: place.symlink_to(tmp_path / "elsewhere"),
        "pipe": lambda: os.mkfifo(place),
        "folder": place.mkdir,
        "large": lambda: place.write_bytes(b"x" * (64 * 2**10 + 1)),
        "binary": lambda: place.write_bytes(b"\xff\xfe"),
        "empty": lambda: place.write_bytes(b"\n"),
    }
    make[kind]()

    with pytest.raises(SecretUnreadable) as refused:
        secret_value("file", "odd")
    assert "of-the-host" not in str(refused.value)
