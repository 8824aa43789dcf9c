"""Secrets without a manager, which of them a process reads, and what is masked."""

from __future__ import annotations

import base64
import os
from urllib.parse import quote

import pytest

from kernel.redaction import SecretRegister
from sync_stack.configuration.bundle_file import bundle_of, read_text
from sync_stack.configuration.secrets import SecretResolver, UnreadableSecret, bundle_hooks
from sync_stack.core.bundle.secret_use import Process, refs_in, secrets_used
from sync_stack.core.bundle.secrets import SecretRef
from tests.support.bundles import read_changed, valid, with_datasource
from tests.support.processes import ROOT


@pytest.fixture
def resolver():
    made = SecretResolver(
        lambda *_args: pytest.fail("no manager is asked"),
        variables={"SET": "from-environment", "EMPTY": " "},
        register=SecretRegister(),
    )
    yield made
    made.close()


def test_values_variables_and_files(resolver, tmp_path):
    file = tmp_path / "secret"
    file.write_text("  from-file \n")

    assert resolver.resolve(SecretRef(value=" as written ")) == " as written "
    assert resolver.resolve(SecretRef(env="SET")) == "from-environment"
    assert resolver.resolve(SecretRef(file=str(file))) == "from-file"


def test_a_file_is_read_again_when_it_changed(resolver, tmp_path):
    file = tmp_path / "secret"
    file.write_text("one-value")
    ref = SecretRef(file=str(file))
    assert resolver.resolve(ref) == "one-value"
    before = file.stat()
    file.write_text("two-value")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert resolver.resolve(ref) == "one-value"
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert resolver.resolve(ref) == "two-value"


def test_what_cannot_be_read_is_named(resolver, tmp_path):
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for ref, why in (
        (SecretRef(env="UNSET"), "UNSET is not set"),
        (SecretRef(env="EMPTY"), "EMPTY is not set"),
        (SecretRef(file=str(tmp_path / "none")), "No such file"),
        (SecretRef(file=str(tmp_path / "empty")), "is empty"),
        (SecretRef(file=str(tmp_path / "binary")), "not UTF-8 text"),
        (SecretRef(file=str(tmp_path)), "cannot be read"),
    ):
        with pytest.raises(UnreadableSecret, match=why):
            resolver.resolve(ref)


def bundle_with_secrets():
    def change(bundle):
        bundle["secret_managers"] = [
            {"vault": {"endpoint": "https://v", "token_auth": {"token": {"env": "VAULT"}}}}
        ]
        bundle["platforms"][0]["github"] = {
            "secret": {"env": "HOOK"},
            "secret_previous": {"env": "HOOK_OLD"},
            "token": {"env": "CLONE"},
        }
        bundle["datasources"][0]["mongo"] = {
            "endpoint": "mongodb://u:in-the-string@m",
            "username": {"env": "MONGO_U"},
            "password": {"env": "MONGO_P"},
        }
        bundle["datasources"][1]["redis"]["password"] = {"env": "REDIS_P"}
        bundle["task_broker_datasource"] = "redis"

    return valid(read_changed(change))


@pytest.mark.parametrize(
    ("process", "names"),
    [
        (Process.GATEWAY, {"HOOK", "HOOK_OLD", "REDIS_P"}),
        (Process.WATCHER, {"MONGO_U", "MONGO_P", "REDIS_P"}),
        (Process.ORCHESTRATOR, {"MONGO_U", "MONGO_P", "REDIS_P", "CLONE", "VAULT"}),
    ],
)
def test_a_process_reads_only_what_it_uses(process, names):
    """Sync invariant 26: and it does not start without that."""
    bundle = bundle_with_secrets()
    resolver = SecretResolver(
        lambda *_args: pytest.fail("no manager is asked"), variables={}, register=SecretRegister()
    )
    complaints = bundle_hooks(process, resolver, file="config.cue").check(bundle)
    resolver.close()

    assert {ref.env for ref in secrets_used(bundle, process)} == names
    assert {entry.message.split()[3] for entry in complaints} == names
    assert {entry.code for entry in complaints} == {"unreadable_secret"}


def test_a_missing_secret_is_named_with_its_place():
    resolver = SecretResolver(
        lambda *_args: pytest.fail("no manager is asked"), variables={}, register=SecretRegister()
    )
    complaints = bundle_hooks(Process.GATEWAY, resolver, file="config.cue").check(
        bundle_with_secrets()
    )
    resolver.close()

    assert str(complaints[0]) == (
        "config.cue: bundle.platforms[0].github.secret: the environment variable HOOK is not set "
        "[unreadable_secret]"
    )


def test_secrets_are_masked_in_every_encoding(resolver):
    """Sync invariant 24."""
    secret = 'pä ss"word/?>~'
    resolver.resolve(SecretRef(value=secret))
    mask = resolver._register.mask
    raw = secret.encode()
    usual, url_safe = base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()

    forms = [
        secret,
        usual,
        url_safe.rstrip("="),
        raw.hex(),
        raw.hex().upper(),
        quote(secret, safe=""),
        'pä ss\\"word/?>~',
        'p\\u00e4 ss\\"word/?>~',
    ]
    assert usual != url_safe
    assert [mask(f"<{form}>") for form in forms] == ["<***>"] * len(forms)


def test_what_the_bundle_holds_in_plain_text_is_masked_at_once(resolver):
    """Sync invariant 24: also a password inside a connection string."""
    resolver.use(bundle_with_secrets())

    assert resolver._register.mask("mongodb://u:in-the-string@m") == "mongodb://u:***@m"


def test_the_user_of_the_delivered_bundle_is_not_masked_and_its_password_is(resolver):
    """Sync invariant 24: `partita`, the user's default, is in every message of that stack."""
    bundle = valid(bundle_of(read_text(ROOT / "config.cue")))
    resolver._variables = {"MONGO_USER": "partita", "MONGO_PASSWORD": "pass-word"}

    resolver.use(bundle)
    for ref in secrets_used(bundle, Process.WATCHER):
        resolver.resolve(ref)

    masked = resolver._register.mask("partita is started, with pass-word")
    assert masked == "partita is started, with ***"


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("mongo", {"host": "m", "username": "app-user", "password": "pass-word"}),
        ("redis", {"username": {"value": "app-user"}, "password": "pass-word"}),
        (
            "configmap",
            {
                "namespace": "a",
                "configmap_name": "b",
                "api_server": "https://app-user.example",
                "client_cert": "/app-user/cert.pem",
                "client_key": "/app-user/key.pem",
            },
        ),
    ],
)
def test_only_secrets_of_a_datasource_are_masked(resolver, kind, fields):
    bundle = valid(with_datasource(kind, tag="x", **fields))

    resolver.use(bundle)
    for ref in refs_in(bundle.datasource(f"{kind}-x")):
        resolver.resolve(ref)

    masked = resolver._register.mask("/app-user/key.pem app-user pass-word")
    assert masked == f"/app-user/key.pem app-user {'***' if 'password' in fields else 'pass-word'}"


def test_a_name_and_the_password_of_one_spelling_are_masked(resolver):
    bundle = valid(with_datasource("mongo", tag="x", host="m", username="same", password="same"))

    resolver.use(bundle)

    assert resolver._register.mask("same") == "***"


def test_short_values_are_not_masked():
    register = SecretRegister()
    register.add("abc", "long")

    assert register.mask("abc long") == "abc ***"
