"""A leaked secret is replaced: who signs in, what is forged, what is encrypted."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyotp
import pytest
from django.conf import settings as django_settings
from django.core.management import call_command

from apps.accounts import selectors
from apps.accounts.api import Principal
from apps.accounts.domain import tokens
from apps.accounts.domain.errors import Unauthenticated
from apps.accounts.domain.second_factor import matching_step
from apps.accounts.models import SecondFactor
from apps.accounts.services import second_factor
from apps.accounts.services.administrators import operator
from apps.accounts.services.second_factor import (
    begin_second_factor,
    confirm_second_factor,
    pending_second_factor,
)
from apps.operations.services import encryption_keys as rotation
from apps.platform_settings.api import get_registry, replace_settings, settings_document
from apps.platform_settings.domain import wire
from apps.platform_settings.models import PlatformSettings
from apps.platform_settings.services import encrypted_settings
from apps.platform_settings.services.live_settings import live_settings
from kernel.clock import now
from kernel.encryption import fingerprint
from platform_site.settings.keys import encryption_keys
from tests.apps.accounts.conftest import Api
from tests.apps.platform_settings.documents import SECRETS, document
from tests.support.api_clients import problem

EMAIL, ADMIN_PASSWORD = "root@example.org", "swordfish"
OLD, NEW = "the-old-secret-" + "o" * 40, "the-new-secret-" + "n" * 40

Restart = Callable[..., None]


@pytest.fixture(autouse=True)
def _file(settings: Any, tmp_path: Path, transactional_db: None) -> None:
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"


@pytest.fixture
def restart(settings: Any) -> Restart:
    """Continue as a new process with these secrets in its environment."""

    def with_secrets(
        secret: str, *, signed: tuple[str, ...] = (), key: str = "", encrypted: tuple[str, ...] = ()
    ) -> None:
        settings.JWT_SECRET, settings.JWT_PREVIOUS_SECRETS = secret, signed
        origins = encryption_keys((secret, *signed), key=key, previous=encrypted)
        settings.ENCRYPTION_KEY_ORIGINS, settings.ENCRYPTION_KEYS = origins, list(origins)
        selectors._cache.clear()
        live_settings.forget()

    with_secrets(OLD)
    return with_secrets


@pytest.fixture
def root(restart: Restart, admin: Api) -> Principal:
    return operator()


@pytest.fixture
def app(root: Principal) -> pyotp.TOTP:
    """The administrator's app, whose second factor is on."""
    made = pyotp.TOTP(begin_second_factor(root).secret)
    with suppress(Unauthenticated):  # half a minute was over between the code and its use
        confirm_second_factor(root, made.at(now() - timedelta(seconds=30)))
        return made
    confirm_second_factor(root, made.at(now() - timedelta(seconds=30)))
    return made


@pytest.fixture
def stored(root: Principal) -> None:
    """Settings with secrets, in the store and in a file that the platform wrote."""
    path = Path(live_path())
    path.write_text("mode: local\nagents: []  # a comment\n")
    replace_settings(root, document())


def live_path() -> str:
    return str(django_settings.PLATFORM_SETTINGS_FILE)


def sign_in(app: pyotp.TOTP) -> Any:
    """Sign in with a code that was not used before."""
    SecondFactor.objects.update(last_step=0)
    caller = Api(address=f"203.0.113.{uuid.uuid4().int % 200}")
    return caller.auth(
        "sign-in", {"email": EMAIL, "password": ADMIN_PASSWORD, "code": app.at(now())}
    )


def forge(secret: str, user_id: object) -> Api:
    moment = int(time.time())
    claims = {"sub": str(user_id), "jti": str(uuid.uuid4()), "iat": moment, "exp": moment + 9**7}
    return Api(token=tokens.sign_access_token(claims, secret))


def run_keys(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    with pytest.raises(SystemExit) as ended:
        call_command("keys", *words, "-o", "json")
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


@pytest.mark.store
def test_a_leaked_secret_is_replaced_and_removed(
    app: pyotp.TOTP, stored: None, root: Principal, restart: Restart, capsys: Any
) -> None:
    before = sign_in(app)
    restart(NEW, signed=(OLD,), encrypted=(OLD,))
    during = sign_in(app)
    forged = forge(OLD, root.user_id)

    assert (before.status_code, during.status_code) == (200, 200)
    assert Api(token=before.json()["token"]).me().status_code == 200
    assert problem(forged.me()) == (401, "token_invalid")
    refused = forged.auth("tokens", {"name": "x", "scope": "admin", "days": 365})
    assert problem(refused) == (401, "token_invalid")

    code, done = run_keys(capsys, "reencrypt")
    assert code == 0
    assert {each["kind"]: each["encryptedAnew"] for each in done["kinds"]} == {
        "second-factors": 1, "settings": len(SECRETS), "settings-file": len(SECRETS),
    }  # fmt: skip

    restart(NEW)
    code, status = run_keys(capsys, "status")
    assert code == 0
    assert [key["origin"] for key in status["keys"]] == ["JWT_SECRET"]
    assert sign_in(app).status_code == 200
    assert get_registry("zot").secret == SECRETS[0]
    shown = settings_document(root)
    assert (shown["warnings"], shown["fileInSync"]) == ([], True)
    assert problem(Api(token=before.json()["token"]).me()) == (401, "token_invalid")


def test_an_explicit_encryption_key_is_replaced_without_the_signing_secret(
    app: pyotp.TOTP, stored: None, restart: Restart, capsys: Any
) -> None:
    restart(OLD, key="first-key")
    run_keys(capsys, "reencrypt")
    restart(OLD, key="second-key", encrypted=("first-key",))
    code, _ = run_keys(capsys, "reencrypt")
    restart(NEW, key="second-key")

    assert code == 0
    assert sign_in(app).status_code == 200
    assert get_registry("zot").secret == SECRETS[0]


def test_status_counts_what_each_key_encrypts(
    app: pyotp.TOTP, stored: None, restart: Restart, capsys: Any
) -> None:
    restart(OLD, key="new-key")

    code, status = run_keys(capsys, "status")

    assert code == 0
    current, derived = status["keys"]
    assert (current["origin"], current["current"]) == ("SETTINGS_ENCRYPTION_KEY", True)
    assert current["fingerprint"] == fingerprint("new-key")
    assert set(current["texts"].values()) == {0}
    assert (derived["origin"], derived["current"]) == ("JWT_SECRET", False)
    assert derived["texts"] == {
        "second-factors": 1, "settings": len(SECRETS), "settings-file": len(SECRETS),
    }  # fmt: skip


def test_a_dry_run_counts_and_changes_nothing(
    app: pyotp.TOTP, stored: None, restart: Restart, capsys: Any
) -> None:
    restart(OLD, key="new-key")
    before = (str(SecondFactor.objects.values()), str(PlatformSettings.objects.values()))
    text = Path(live_path()).read_bytes()

    code, done = run_keys(capsys, "reencrypt", "--dry-run")

    assert code == 0
    assert done["dryRun"] is True
    assert sum(each["encryptedAnew"] for each in done["kinds"]) == 1 + 2 * len(SECRETS)
    assert (str(SecondFactor.objects.values()), str(PlatformSettings.objects.values())) == before
    assert Path(live_path()).read_bytes() == text


def test_a_second_time_nothing_is_left_to_do(
    app: pyotp.TOTP, stored: None, restart: Restart, capsys: Any
) -> None:
    restart(OLD, key="new-key")
    run_keys(capsys, "reencrypt")
    rows = str(SecondFactor.objects.values())

    code, again = run_keys(capsys, "reencrypt")

    assert code == 0
    assert [each["encryptedAnew"] for each in again["kinds"]] == [0, 0, 0]
    assert str(SecondFactor.objects.values()) == rows


@pytest.mark.store
def test_what_no_key_decrypts_is_named_and_left_as_it_is(
    app: pyotp.TOTP, stored: None, restart: Restart, capsys: Any
) -> None:
    restart(NEW)
    rows = str(SecondFactor.objects.values())

    code, done = run_keys(capsys, "reencrypt")

    assert code == 1
    lost = {each["kind"]: each["unreadable"] for each in done["kinds"]}
    assert lost["second-factors"] == [f"second factor of {EMAIL}"]
    assert "registries[zot].secret" in lost["settings"]
    assert str(SecondFactor.objects.values()) == rows
    assert run_keys(capsys, "status")[0] == 1


@pytest.mark.store
def test_a_change_of_the_settings_beside_it_is_kept(
    stored: None, root: Principal, restart: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An administrator saves between the read and the write of the row."""
    restart(OLD, key="new-key")
    real = wire.map_secrets
    saved: list[object] = []

    def mapped(*given: Any) -> Any:
        if not saved:
            saved.append(replace_settings(root, document(description="meanwhile")))
        return real(*given)

    monkeypatch.setattr(encrypted_settings, "map_secrets", mapped)

    outcomes = {each.kind: each for each in rotation.reencrypt(dry_run=False)}

    assert outcomes["settings"].is_complete
    restart(NEW, key="new-key")
    assert settings_document(root)["description"] == "meanwhile"
    assert get_registry("zot").secret == SECRETS[0]


def test_a_sign_in_beside_it_is_not_refused(
    app: pyotp.TOTP, restart: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The secret is re-encrypted between its read and the use of the code."""
    restart(OLD, key="new-key")
    real = matching_step
    done: list[object] = []

    def match_late(*given: Any) -> int | None:
        if not done:
            done.append(list(rotation.reencrypt(dry_run=False)))
        return real(*given)

    monkeypatch.setattr(second_factor, "matching_step", match_late)

    assert sign_in(app).status_code == 200
    assert done


def test_a_file_that_cannot_be_written_is_named(
    stored: None, restart: Restart, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_given: object) -> None:
        raise PermissionError(13, "Permission denied")

    restart(OLD, key="new-key")
    monkeypatch.setattr("kernel.mirrored_file.MirroredFile.replace", refuse)

    code, done = run_keys(capsys, "reencrypt")

    assert code == 1
    (failure,) = next(each["failures"] for each in done["kinds"] if each["kind"] == "settings-file")
    assert failure == {"place": "configuration.yaml", "reason": "Permission denied"}


def test_a_second_factor_that_no_key_decrypts_says_what_to_do(
    app: pyotp.TOTP, restart: Restart
) -> None:
    restart(NEW)

    refused = sign_in(app)

    assert problem(refused) == (401, "second_factor_unreadable")
    assert "recovery code" in refused.json()["detail"]
    assert "SETTINGS_PREVIOUS_ENCRYPTION_KEYS" in refused.json()["detail"]


def test_a_setup_that_no_key_decrypts_can_be_begun_again(root: Principal, restart: Restart) -> None:
    begin_second_factor(root)
    restart(NEW)

    assert pending_second_factor(root) is None
    assert begin_second_factor(root).secret
