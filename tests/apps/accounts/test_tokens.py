"""Access and refresh tokens: what counts, what no longer does (reference: control-plane 3)."""

from __future__ import annotations

import base64
import hashlib
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import jwt
import pytest

from apps.accounts import selectors
from apps.accounts.api import Principal, Role, end_every_sign_in, recheck, revoke_everything
from apps.accounts.domain import tokens
from apps.accounts.domain.errors import Unauthenticated
from apps.accounts.models import (
    ApiToken,
    PasswordReset,
    RefreshFamily,
    RefreshToken,
    RevokedToken,
    User,
)
from apps.accounts.services.sign_up import sign_up
from apps.accounts.services.token_pairs import issue_tokens
from kernel.clock import now
from tests.apps.accounts.conftest import PASSWORD, Api
from tests.support.api_clients import problem
from tests.support.people import principal_of

OTHER_SECRET = "another-secret-for-tests-0123456789abcdef"


def later(monkeypatch, seconds: float) -> None:
    """What this process remembers is that much older."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + seconds)


def claims_of(token: str) -> dict[str, Any]:
    return jwt.decode(token, options={"verify_signature": False})


def forged(secret: str, user_id: object, **changes: object) -> str:
    claims = {
        "sub": str(user_id),
        "jti": str(uuid.uuid4()),
        "iat": int(time.time()),
        "exp": int(time.time()) + 3600,
        "workspaceId": str(uuid.uuid4()),
        "isAdmin": True,
        "provider": "password",
    }
    return tokens.sign_access_token(claims | changes, secret)


def test_an_access_token_has_the_claims_of_the_reference(signed_up, settings):
    token = signed_up["token"]
    header, claims = jwt.get_unverified_header(token), claims_of(token)

    assert header["alg"] == "HS256"
    assert header["kid"] == hashlib.sha256(settings.JWT_SECRET.encode()).hexdigest()[:8]
    assert set(claims) == {
        "iss",
        "aud",
        "sub",
        "jti",
        "iat",
        "exp",
        "workspaceId",
        "isAdmin",
        "provider",
    }
    assert (claims["iss"], claims["aud"]) == ("partita", "partita.user.access")
    assert claims["sub"] == signed_up["user"]["userId"]
    assert claims["workspaceId"] == signed_up["workspace"]["workspaceId"]
    assert claims["isAdmin"] is False
    assert claims["provider"] == "password"
    assert claims["exp"] - claims["iat"] == 12 * 3600


def test_the_scheme_is_case_insensitive(signed_up):
    for scheme in ("bearer", "BEARER"):
        answer = Api().get("/api/v1/auth/me", Authorization=f"{scheme} {signed_up['token']}")

        assert answer.status_code == 200


def test_another_scheme_is_no_credential(signed_up):
    answer = Api().get("/api/v1/auth/me", Authorization=f"Basic {signed_up['token']}")

    assert problem(answer) == (401, "unauthenticated")


def b64(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def hostile_tokens(token: str) -> list[str]:
    head, body, signature = token.split(".")
    payload = claims_of(token)
    admin = b64(payload | {"isAdmin": True})
    kid = jwt.get_unverified_header(token)["kid"]
    deep = base64.urlsafe_b64encode(b'{"a":' * 1200 + b"1" + b"}" * 1200).decode()
    return [
        "",
        "x",
        "..",
        "a.b.c",
        f"{head}.{body}.",
        f"{head}.{admin}.{signature}",
        f"{b64({'alg': 'none', 'kid': kid})}.{body}.",
        f"{b64({'alg': 'None', 'typ': 'JWT', 'kid': kid})}.{admin}.",
        f"{b64({'alg': 'HS512', 'kid': kid})}.{body}.{signature}",
        f"{b64({'alg': 'RS256', 'kid': kid})}.{body}.{signature}",
        f"{b64({'alg': 'HS256'})}.{body}.{signature}",
        f"{b64({'alg': 'HS256', 'kid': ['x']})}.{body}.{signature}",
        f"{b64([])}.{body}.{signature}",
        f"{deep}.{body}.{signature}",
        f"{head}.{body}.{signature}" + "x" * 9000,
        f"{token} {token}",
    ]


def test_tampered_tokens_do_not_count(signed_up):
    """Invariant 33: whatever is sent as a token, the answer is 401."""
    for token in hostile_tokens(signed_up["token"]):
        answer = Api().get("/api/v1/auth/me", Authorization=f"Bearer {token}")

        assert problem(answer) == (401, "token_invalid"), token[:80]


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "someone"},
        {"aud": "partita.agent"},
        {"sub": "nobody"},
        {"exp": "soon"},
        {"exp": 10**30},
        {"nbf": 4102444800},
        {"iat": 4102444800},
        {"jti": 7},
    ],
)
def test_signed_tokens_with_wrong_claims_do_not_count(ada_row, settings, changes):
    payload = claims_of(forged(settings.JWT_SECRET, ada_row.id)) | changes
    kid = tokens.key_id(settings.JWT_SECRET)
    token = jwt.encode(payload, settings.JWT_SECRET, "HS256", headers={"kid": kid})

    assert problem(Api(token=token).me()) == (401, "token_invalid")


@pytest.mark.parametrize("claim", ["iss", "aud", "sub", "jti", "iat", "exp"])
def test_signed_tokens_without_a_claim_do_not_count(ada_row, settings, claim):
    payload = claims_of(forged(settings.JWT_SECRET, ada_row.id))
    del payload[claim]
    kid = tokens.key_id(settings.JWT_SECRET)
    token = jwt.encode(payload, settings.JWT_SECRET, "HS256", headers={"kid": kid})

    assert problem(Api(token=token).me()) == (401, "token_invalid")


def test_another_algorithm_is_refused_even_with_the_right_secret(ada_row, settings):
    payload = claims_of(forged(settings.JWT_SECRET, ada_row.id))
    kid = tokens.key_id(settings.JWT_SECRET)
    token = jwt.encode(payload, settings.JWT_SECRET * 2, "HS512", headers={"kid": kid})

    assert problem(Api(token=token).me()) == (401, "token_invalid")


def test_an_expired_token_has_thirty_seconds_of_leeway(ada_row, settings):
    moment = int(time.time())

    just = Api(token=forged(settings.JWT_SECRET, ada_row.id, exp=moment - 20)).me()
    gone = Api(token=forged(settings.JWT_SECRET, ada_row.id, exp=moment - 31)).me()

    assert just.status_code == 200
    assert problem(gone) == (401, "token_expired")


def test_previous_secrets_verify_and_do_not_sign(ada, settings):
    settings.JWT_PREVIOUS_SECRETS = (settings.JWT_SECRET,)
    settings.JWT_SECRET = OTHER_SECRET

    assert ada.me().status_code == 200
    fresh = Api().auth("sign-in", {"email": "ada@example.org", "password": PASSWORD}).json()
    kid = jwt.get_unverified_header(fresh["token"])["kid"]
    assert kid == tokens.key_id(OTHER_SECRET)


@pytest.fixture
def replaced_secret(settings) -> Callable[[], str]:
    """Replace the signing secret and return the old one, which stays listed."""

    def replace() -> str:
        old = str(settings.JWT_SECRET)
        settings.JWT_SECRET = OTHER_SECRET
        settings.JWT_PREVIOUS_SECRETS = (old,)
        selectors._cache.clear()  # another process, which remembers nothing
        return old

    return replace


@pytest.mark.parametrize("age_s", [0, 60, 3600, 86_400])
@pytest.mark.parametrize("life_s", [3600, 30 * 86_400])
def test_what_is_forged_with_a_replaced_secret_does_not_count(
    ada_row, replaced_secret, age_s, life_s
):
    """Invariant 18: neither one of today nor one that claims to be older than the replacement."""
    old, moment = replaced_secret(), int(time.time())
    token = forged(old, ada_row.id, iat=moment - age_s, exp=moment + life_s)

    assert problem(Api(token=token).me()) == (401, "token_invalid")


@pytest.mark.parametrize("claim", ["sub", "exp"])
def test_a_replaced_secret_cannot_change_a_token_that_was_issued(
    ada, admin, replaced_secret, claim
):
    genuine = claims_of(ada.token)
    other = {"sub": claims_of(admin.token)["sub"], "exp": genuine["exp"] + 86_400}
    token = forged(replaced_secret(), **{"user_id": genuine["sub"], **genuine, claim: other[claim]})

    assert problem(Api(token=token).me()) == (401, "token_invalid")


def test_a_secret_that_came_back_signs_and_the_one_between_forges_nothing(
    ada, ada_row, settings, replaced_secret
):
    """A rollback: what both secrets issued counts, and nothing else."""
    old = replaced_secret()
    between = Api().auth("sign-in", {"email": "ada@example.org", "password": PASSWORD}).json()
    settings.JWT_SECRET, settings.JWT_PREVIOUS_SECRETS = old, (OTHER_SECRET, old)
    selectors._cache.clear()

    assert ada.me().status_code == 200
    assert Api(token=between["token"]).me().status_code == 200
    assert problem(Api(token=forged(OTHER_SECRET, ada_row.id)).me()) == (401, "token_invalid")


def test_an_issued_token_of_a_replaced_secret_ends_with_its_sign_out(ada, replaced_secret):
    replaced_secret()
    assert ada.auth("sign-out").json() == {"status": "signed-out"}

    assert problem(ada.me()) == (401, "token_revoked")


def test_a_refresh_token_outlives_the_secret(signed_up, replaced_secret):
    replaced_secret()

    renewed = Api().auth("refresh", {"refreshToken": signed_up["refreshToken"]})

    assert renewed.status_code == 200
    assert jwt.get_unverified_header(renewed.json()["token"])["kid"] == tokens.key_id(OTHER_SECRET)


def test_a_dropped_secret_verifies_no_longer(ada, settings):
    settings.JWT_SECRET = OTHER_SECRET

    assert problem(ada.me()) == (401, "token_invalid")


def test_claims_are_never_trusted_over_the_store(ada_row, settings):
    """Invariant 18: `isAdmin` and `workspaceId` of a signed token are not looked at."""
    token = forged(settings.JWT_SECRET, ada_row.id, isAdmin=True)

    assert problem(Api(token=token).get("/api/v1/admin-only")) == (403, "admin_required")
    shown = Api(token=token).me().json()
    assert shown["workspace"]["workspaceId"] == str(ada_row.workspace_id)


def test_an_administrator_may_what_a_member_may_not(ada, admin, api):
    assert admin.get("/api/v1/admin-only").json() == {"email": "root@example.org"}
    assert problem(ada.get("/api/v1/admin-only")) == (403, "admin_required")
    assert problem(api.get("/api/v1/admin-only")) == (401, "unauthenticated")


def test_a_demoted_administrator_acts_at_most_thirty_seconds(admin, monkeypatch):
    """Invariant 18."""
    assert admin.get("/api/v1/admin-only").status_code == 200
    User.objects.filter(email="root@example.org").update(is_admin=False)

    later(monkeypatch, 30)

    assert problem(admin.get("/api/v1/admin-only")) == (403, "admin_required")


def test_a_disabled_account_acts_at_most_thirty_seconds(ada, monkeypatch):
    """Invariant 18."""
    assert ada.me().status_code == 200
    User.objects.update(is_active=False)

    later(monkeypatch, 30)

    assert problem(ada.me()) == (401, "token_revoked")


def test_a_token_revoked_elsewhere_counts_at_most_thirty_seconds(ada, monkeypatch):
    """Invariant 18: another replica took the sign-out."""
    assert ada.me().status_code == 200
    RevokedToken.objects.create(
        jti=claims_of(ada.token)["jti"], expires_at=now() + timedelta(hours=1)
    )

    later(monkeypatch, 30)

    assert problem(ada.me()) == (401, "token_revoked")


def test_a_deleted_account_is_nobody(ada, ada_row):
    ada_row.delete()
    selectors._cache.clear()

    assert problem(ada.me()) == (401, "token_revoked")


def test_sign_out_ends_the_token_at_once_and_its_refresh_token_too(ada, signed_up):
    """Invariant 18."""
    assert ada.auth("sign-out").json() == {"status": "signed-out"}

    assert problem(ada.me()) == (401, "token_revoked")
    refreshed = Api().auth("refresh", {"refreshToken": signed_up["refreshToken"]})
    assert problem(refreshed) == (401, "refresh_invalid")


def test_sign_out_leaves_other_sign_ins_of_the_account_alone(ada):
    other = Api().auth("sign-in", {"email": "ada@example.org", "password": PASSWORD}).json()

    ada.auth("sign-out")

    assert Api(token=other["token"]).me().status_code == 200
    assert Api().auth("refresh", {"refreshToken": other["refreshToken"]}).status_code == 200


def test_sign_out_everywhere_ends_every_token_and_session_of_the_user_alone(ada, signed_up):
    """Invariant 18."""
    words = {"email": "ada@example.org", "password": PASSWORD}
    other = Api().auth("sign-in", words).json()
    grace = sign_up(full_name="Grace", email="grace@example.org", password=PASSWORD)
    stranger = issue_tokens(grace)
    assert Api(token=other["token"]).me().status_code == 200

    assert ada.auth("sign-out-everywhere").json() == {"status": "signed-out"}

    for pair in (signed_up, other):
        assert problem(Api(token=pair["token"]).me()) == (401, "token_revoked")
        refreshed = Api().auth("refresh", {"refreshToken": pair["refreshToken"]})
        assert problem(refreshed) == (401, "refresh_invalid")
    assert Api(token=stranger.token).me().status_code == 200


def test_sign_out_everywhere_takes_no_body_keys(ada):
    """Invariant 26."""
    assert problem(ada.auth("sign-out-everywhere", {"all": True})) == (400, "validation_failed")
    assert ada.me().status_code == 200


def test_sign_out_takes_no_body_keys(ada):
    """Invariant 26."""
    assert problem(ada.auth("sign-out", {"everywhere": True})) == (400, "validation_failed")
    assert ada.me().status_code == 200


def test_refresh_answers_a_new_pair_and_ends_the_old_token(ada, signed_up):
    answer = Api().auth("refresh", {"refreshToken": signed_up["refreshToken"]})

    assert answer.status_code == 200
    fresh = answer.json()
    assert fresh["user"] == signed_up["user"]
    assert fresh["refreshToken"] != signed_up["refreshToken"]
    assert Api(token=fresh["token"]).me().status_code == 200
    assert problem(ada.me()) == (401, "token_revoked")


def test_a_refresh_token_used_twice_ends_its_whole_family(signed_up):
    """Invariant 18."""
    first = Api().auth("refresh", {"refreshToken": signed_up["refreshToken"]}).json()
    second = Api().auth("refresh", {"refreshToken": first["refreshToken"]}).json()
    assert Api(token=second["token"]).me().status_code == 200

    replayed = Api().auth("refresh", {"refreshToken": signed_up["refreshToken"]})

    assert problem(replayed) == (401, "refresh_reused")
    assert problem(Api(token=second["token"]).me()) == (401, "token_revoked")
    youngest = Api().auth("refresh", {"refreshToken": second["refreshToken"]})
    assert problem(youngest) == (401, "refresh_invalid")


def test_a_replay_leaves_other_families_alone(signed_up):
    other = Api().auth("sign-in", {"email": "ada@example.org", "password": PASSWORD}).json()
    for _ in range(2):
        Api().auth("refresh", {"refreshToken": signed_up["refreshToken"]})

    assert Api(token=other["token"]).me().status_code == 200


def test_unknown_and_expired_refresh_tokens_do_not_count(signed_up):
    RefreshToken.objects.update(expires_at=now())

    for token in (signed_up["refreshToken"], "x" * 43, "\u00e9"):
        answer = Api().auth("refresh", {"refreshToken": token})

        assert problem(answer) == (401, "refresh_invalid")


def test_a_disabled_account_cannot_refresh(signed_up):
    """Invariant 18."""
    User.objects.update(is_active=False)

    answer = Api().auth("refresh", {"refreshToken": signed_up["refreshToken"]})

    assert problem(answer) == (401, "refresh_invalid")


def test_tokens_follow_the_store_when_refreshed(signed_up):
    User.objects.update(is_admin=True)

    answer = Api().auth("refresh", {"refreshToken": signed_up["refreshToken"]})

    assert claims_of(answer.json()["token"])["isAdmin"] is True


def test_everything_of_a_user_can_be_revoked(ada, browser, ada_row, signed_up):
    """Invariant 18."""
    assert browser.get("/page/whoami").json() == {"email": "ada@example.org"}

    revoke_everything(ada_row.id)

    assert problem(ada.me()) == (401, "token_revoked")
    assert browser.get("/page/whoami").json() == {"email": None}
    refreshed = Api().auth("refresh", {"refreshToken": signed_up["refreshToken"]})
    assert problem(refreshed) == (401, "refresh_invalid")


def test_after_a_restore_everybody_signs_in_again(signed_up, ada, ada_row, browser):
    ApiToken.objects.create(
        user=ada_row, name="CI", token_hash="0" * 64, scope="run", expires_at=now() + timedelta(1)
    )
    PasswordReset.objects.create(user=ada_row, token_hash="1" * 64, expires_at=now() + timedelta(1))

    end_every_sign_in()
    selectors._cache.clear()  # the servers were stopped

    assert problem(ada.me()) == (401, "token_revoked")
    assert browser.get("/page/whoami").json() == {"email": None}
    refreshed = Api().auth("refresh", {"refreshToken": signed_up["refreshToken"]})
    assert problem(refreshed) == (401, "refresh_invalid")
    assert not PasswordReset.objects.exists()
    assert ApiToken.objects.exists(), "programs go on"


def test_tokens_are_stored_hashed(signed_up):
    """Invariant 19."""
    stored = json.dumps(list(RefreshToken.objects.values()), default=str)

    assert signed_up["refreshToken"] not in stored
    assert signed_up["token"] not in stored


def test_no_answer_holds_a_hash_or_a_password(ada, api, signed_up, ada_row):
    """Invariant 19."""
    answers = [
        ada.me(),
        api.auth("sign-in", {"email": "ada@example.org", "password": PASSWORD}),
        api.auth("sign-in", {"email": "ada@example.org", "password": "Wrong-Horse-1"}),
        api.auth("sign-up", {"email": "ada@example.org", "fullName": "A", "password": PASSWORD}),
        api.auth("refresh", {"refreshToken": signed_up["refreshToken"] + "x"}),
        Api(token=ada.token + "x").me(),
        api.get("/api/v1/auth/me", {"token": ada.token}),
    ]

    for answer in answers:
        text = answer.content.decode()
        for secret in (
            PASSWORD,
            "Wrong-Horse-1",
            ada_row.password,
            signed_up["refreshToken"],
            ada.token,
        ):
            assert secret not in text


def principal_of_token(token: str, user: User) -> Principal:
    return principal_of(user, token_jti=claims_of(token)["jti"], role=Role.VIEWER)


def test_a_recheck_reads_the_store(ada, ada_row):
    """Invariant 12: a stream that asks each 30 s ends in time, whatever is remembered."""
    principal = principal_of_token(ada.token, ada_row)
    assert recheck(principal)

    RevokedToken.objects.create(jti=principal.token_jti, expires_at=now() + timedelta(hours=1))

    assert not recheck(principal)


@pytest.mark.parametrize("change", [{"is_active": False}, {"is_admin": False}])
def test_a_recheck_notices_lost_rights(signed_up, ada_row, change):
    """Invariants 12 and 18."""
    User.objects.update(is_admin=True)
    ada_row.refresh_from_db()
    principal = principal_of_token(issue_tokens(ada_row).token, ada_row)
    assert recheck(principal)

    User.objects.update(**change)

    assert not recheck(principal)


def test_a_recheck_notices_the_end_of_the_credential(ada, ada_row):
    ended = now() - timedelta(seconds=31)
    principal = replace(principal_of_token(ada.token, ada_row), expires_at=ended)

    assert not recheck(principal)


@pytest.mark.parametrize("change", [{"password": "another"}, {"is_active": False}])
def test_a_sign_in_that_a_change_of_the_account_overtook_gets_no_tokens(ada, change):
    read_before = User.objects.get(email="ada@example.org")
    User.objects.filter(pk=read_before.pk).update(**change)
    families = RefreshFamily.objects.count()

    with pytest.raises(Unauthenticated) as refused:
        issue_tokens(read_before)

    assert refused.value.problem_code == "invalid_credentials"
    assert RefreshFamily.objects.count() == families
