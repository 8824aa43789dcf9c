"""Secrets of Vault and AWS Secrets Manager in the environment of steps.

(reference: control-plane 10)
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import boto3
import pytest
from moto import mock_aws

from apps.executions.domain.states import RunReason
from apps.platform_settings.domain.secrets import ManagerUnavailable
from apps.platform_settings.secret_providers.aws import forget_clients
from apps.platform_settings.services import manager_cache as cache_module
from apps.platform_settings.services.manager_cache import ManagerCache, manager_cache
from apps.profiles.api import SecretRef
from kernel.redaction import known_secrets
from tests.apps.executions.runs import Run, Worker, booted_run, node, profile
from tests.support.fake_vault import FakeVault

TOKEN = "hvs.the-token-of-the-test"
VALUE = "s3cret-value-of-psp"
REF = SecretRef(key="PSP_TOKEN", provider="vault", ref="psp#token")
ROUTE = "GET kv/data/psp"


@pytest.fixture(autouse=True)
def _nothing_asked() -> Iterator[None]:
    manager_cache.forget()
    yield
    manager_cache.forget()
    forget_clients()


@pytest.fixture
def vault(settings: Any, tmp_path: Path) -> Iterator[FakeVault]:
    server = FakeVault()
    server.behaviour.tokens.add(TOKEN)
    server.behaviour.secrets["kv/data/psp"] = {"token": VALUE, "user": "ada"}
    settings.VAULT_TOKEN = TOKEN
    _use(settings, tmp_path, f'vaultAddress: "{server.url}", secretPrefix: kv')
    yield server
    server.close()


def _use(settings: Any, folder: Path, managers: str) -> None:
    settings.PLATFORM_SETTINGS_FILE = folder / "configuration.yaml"
    settings.PLATFORM_SETTINGS_FILE.write_text(
        "agents: [{agentId: local-docker, name: Local Docker, type: local}]\n"
        f"secrets: {{provider: vault, {managers}}}\n"
    )


def _booted(*refs: SecretRef, steps: int = 1) -> Run:
    nodes = [node(f"n{number}") for number in range(steps)]
    return booted_run(*nodes, with_profile=profile(secret_refs=refs))


def _problem(*refs: SecretRef) -> str:
    run = _booted(*refs)
    assert (run.status, run.row.reason) == ("Failed", RunReason.SECRET_UNRESOLVED)
    return run.row.reason_detail


def test_a_step_gets_the_value_and_the_supervisor_knows_what_to_mask(vault, worker: Worker):
    """Invariant 19: the redactor knows it, and no record holds it."""
    run = _booted(REF)
    worker.claim()

    spec = worker.jobs["n0"]
    assert (spec["env"]["PSP_TOKEN"], spec["secretKeys"]) == (VALUE, ["PSP_TOKEN"])
    assert known_secrets.mask(f"got {VALUE}") == "got ***"
    assert VALUE not in str(run.events()) + str(run.row.__dict__) + str(run.step("n0").__dict__)


def test_steps_that_start_together_ask_once(vault, monkeypatch, worker: Worker):
    monkeypatch.setattr(cache_module, "KEPT_S", 600)
    _booted(REF, SecretRef(key="PSP_USER", provider="vault", ref="psp#user"), steps=8)

    assert len(worker.claim()) == 8
    assert vault.behaviour.count(ROUTE) == 1


def test_a_token_is_read_anew_from_its_file(vault, settings, tmp_path: Path, worker: Worker):
    settings.VAULT_TOKEN, settings.VAULT_TOKEN_FILE = "", tmp_path / "token"
    assert "VAULT_TOKEN_FILE cannot be read" in _problem(REF)

    settings.VAULT_TOKEN_FILE.write_text(f"{TOKEN}\n")
    _booted(REF)
    assert worker.claim() == ["n0"]


def test_a_failure_names_the_reference_and_never_a_value(vault):
    """Invariant 19."""
    nobody = SecretRef(key="OTHER", provider="vault", ref="nowhere")
    no_field = SecretRef(key="OTHER", provider="vault", ref="psp#pin")
    outside = SecretRef(key="OTHER", provider="vault", ref="../psp")

    said = [_problem(nobody), _problem(no_field), _problem(outside)]
    assert said == [
        "secret OTHER of provider 'vault', 'nowhere': the secret does not exist",
        "secret OTHER of provider 'vault', 'psp#pin': the secret has no field 'pin'",
        "secret OTHER of provider 'vault', '../psp': the path contains an empty part, . or ..",
    ]


def test_without_an_address_the_run_says_what_is_missing(settings, tmp_path: Path):
    _use(settings, tmp_path, "secretPrefix: kv")
    assert "secrets.vaultAddress is not set" in _problem(REF)


def test_no_run_waits_long_for_a_vault_that_hangs(vault, monkeypatch):
    """Invariants 5 and 37: the next ones do not even ask."""
    monkeypatch.setattr(cache_module, "WITHIN_S", 0.3)
    monkeypatch.setattr(cache_module, "PAUSE_S", 600)
    vault.behaviour.delay_s = 1.0

    assert "no answer within 0.3 s" in _problem(REF)
    assert "no answer within 0.3 s" in _problem(REF)
    assert vault.behaviour.count(ROUTE) <= 1


def test_who_gave_no_answer_is_asked_again_a_moment_later():
    times = iter([0.0] * 3 + [4.9] * 2 + [5.1] * 9)
    managers, calls = ManagerCache(clock=lambda: next(times)), []

    def fetch() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise ManagerUnavailable("away")
        return "value"

    for _ in range(2):
        with pytest.raises(ManagerUnavailable):
            managers.read("vault", "psp", fetch)
    assert managers.read("vault", "psp", fetch) == "value"


@pytest.mark.parametrize("ref", ["HOME", "home", "JWT_SECRET", "../HOME"])
def test_a_local_secret_is_no_other_variable_of_this_process(ref: str, monkeypatch):
    """Invariant 21."""
    monkeypatch.setenv("HOME", "/home/of-the-server")
    monkeypatch.setenv("JWT_SECRET", "the-secret-of-the-server")

    detail = _problem(SecretRef(key="LEAK", provider="local", ref=ref))

    assert "of-the-server" not in detail


def test_a_log_node_shows_no_secret(vault):
    """Invariant 19."""
    run = booted_run(
        node("say", kind="log", variant="info", message="token {{env.PSP_TOKEN}}"),
        with_profile=profile(secret_refs=(REF,)),
    )
    assert [line["text"] for line in run.lines("user")] == ["token ***"]


@pytest.fixture
def aws(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    _use(settings, tmp_path, "awsRegion: eu-central-1")
    with mock_aws():
        client = boto3.session.Session().client("secretsmanager", region_name="eu-central-1")
        client.create_secret(Name="team/psp", SecretString=f'{{"token": "{VALUE}"}}')
        client.create_secret(Name="plain", SecretString=VALUE)
        client.create_secret(Name="bytes", SecretBinary=b"bytes")
        yield client


def test_aws_gives_texts_and_keys_of_json(aws, worker: Worker):
    _booted(
        SecretRef(key="A", provider="aws-secrets-manager", ref="team/psp#token"),
        SecretRef(key="B", provider="aws-secrets-manager", ref="plain"),
    )
    worker.claim()

    env = worker.jobs["n0"]["env"]
    assert (env["A"], env["B"]) == (VALUE, VALUE)


def test_what_aws_does_not_have_fails_the_run_by_its_reference(aws):
    def problem(ref: str) -> str:
        return _problem(SecretRef(key="A", provider="aws-secrets-manager", ref=ref))

    assert problem("nowhere") == "secret A of provider 'aws-secrets-manager', 'nowhere': " + (
        "the secret does not exist"
    )
    assert problem("team/psp#pin").endswith("the secret has no field 'pin'")
    assert problem("plain#token").endswith("the secret is not a JSON object")
    assert problem("bytes").endswith("the secret is binary; only text is supported")


def test_many_at_once_are_bounded_and_all_are_told(monkeypatch):
    """Invariant 37: a manager that hangs takes four threads, and each caller a moment."""
    monkeypatch.setattr(cache_module, "WITHIN_S", 0.3)
    released, managers = Event(), ManagerCache()
    with ThreadPoolExecutor(16) as callers:
        tried = [callers.submit(managers.read, "m", str(n), released.wait) for n in range(16)]
        errors = [attempt.exception(30) for attempt in tried]
    released.set()

    assert {type(error) for error in errors} == {ManagerUnavailable}
