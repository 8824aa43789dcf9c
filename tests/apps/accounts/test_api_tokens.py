"""API tokens: credentials of programs, with a scope and an end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.accounts import selectors
from apps.accounts.models import ApiToken, Membership, User
from apps.accounts.services.authentication import _by_api_token, recheck
from kernel.clock import now
from tests.apps.accounts.conftest import Api
from tests.support.api_clients import problem

pytestmark = pytest.mark.store


def created(api: Api, **body: Any) -> Any:
    answer = api.auth("tokens", {"name": "nightly", "scope": "run"} | body)
    assert answer.status_code == 201, answer.content
    return answer.json()


def revoke(api: Api, token_id: str) -> Any:
    bearer = {"Authorization": f"Bearer {api.token}"}
    return api.client.delete(f"/api/v1/auth/tokens/{token_id}", headers=bearer)


def test_a_token_is_shown_once_and_stored_hashed(ada):
    made = created(ada, name=" nightly tests ", expiresInDays=30)

    (listed,) = ada.get("/api/v1/auth/tokens").json()["tokens"]

    assert made["token"].startswith("pat_")
    assert listed == {name: value for name, value in made.items() if name != "token"}
    assert (listed["name"], listed["scope"]) == ("nightly tests", "run")
    assert made["token"] not in str(list(ApiToken.objects.values()))
    assert made["token"].removeprefix("pat_") not in str(list(ApiToken.objects.values()))
    assert ApiToken.objects.get().expires_at - now() < timedelta(days=30)


def test_it_signs_its_owner_in_with_the_rights_of_its_scope(ada):
    roles = {}
    for scope in ("read", "run", "admin"):
        program = Api(token=created(ada, scope=scope)["token"])
        roles[scope] = program.me().json()["role"]

    assert roles == {"read": "viewer", "run": "runner", "admin": "admin"}


def test_it_never_has_more_rights_than_its_owner(ada):
    token = created(ada, scope="admin")["token"]
    Membership.objects.update(role="viewer")
    selectors._cache.clear()

    assert Api(token=token).me().json()["role"] == "viewer"


def test_only_the_scope_admin_administers_the_installation(admin):
    narrow, whole = (created(admin, scope=scope)["token"] for scope in ("run", "admin"))

    assert problem(Api(token=narrow).get("/api/v1/admin-only")) == (403, "admin_required")
    assert Api(token=whole).get("/api/v1/admin-only").status_code == 200


def test_it_ends_at_its_time_when_revoked_and_with_its_owner(ada, ada_row):
    late, gone, left = (Api(token=created(ada)["token"]) for _ in range(3))
    ApiToken.objects.filter(pk=ApiToken.objects.order_by("created_at")[0].pk).update(
        expires_at=now()
    )
    assert problem(late.me()) == (401, "token_expired")

    listed = ada.get("/api/v1/auth/tokens").json()["tokens"]
    for one in listed[1:]:
        assert revoke(ada, one["tokenId"]).status_code == 204
    assert problem(gone.me()) == (401, "token_revoked")

    assert left.me().status_code == 200
    User.objects.filter(pk=ada_row.pk).update(is_active=False)
    selectors._cache.clear()
    assert problem(left.me())[0] == 401


def test_signing_out_everywhere_revokes_it(ada):
    program = Api(token=created(ada)["token"])

    assert ada.auth("sign-out-everywhere").status_code == 200

    assert problem(program.me()) == (401, "token_revoked")


def test_an_unknown_token_is_refused(db):
    assert problem(Api(token="pat_" + "x" * 43).me()) == (401, "token_revoked")


def test_it_makes_no_credentials_and_moves_nobody(ada):
    program = Api(token=created(ada, scope="admin")["token"])
    other = created(ada)
    home = ada.me().json()["workspace"]["workspaceId"]

    answers = [
        program.auth("tokens", {"name": "x", "scope": "read"}),
        program.get("/api/v1/auth/tokens"),
        revoke(program, other["tokenId"]),
        program.auth("stream-tickets", {}),
        program.auth("sign-out"),
        program.client.put(
            "/api/v1/workspaces/current",
            {"workspaceId": home},
            content_type="application/json",
            headers={"Authorization": f"Bearer {program.token}"},
        ),
        program.post("/api/v1/invitations/accept", {"token": "x"}),
    ]

    assert [problem(one) for one in answers] == [(403, "session_required")] * len(answers)


def test_it_may_end_itself(ada):
    made, other = created(ada), created(ada)
    program = Api(token=made["token"])

    assert revoke(program, made["tokenId"]).status_code == 204

    assert problem(program.me()) == (401, "token_revoked")
    assert Api(token=other["token"]).me().status_code == 200


def test_its_last_use_is_noted_at_most_once_a_minute(ada):
    program = Api(token=created(ada)["token"])
    program.me()
    first = ApiToken.objects.get().last_used_at
    assert first is not None

    program.me()

    assert ApiToken.objects.get().last_used_at == first


def test_a_stream_that_it_opened_ends_with_it(ada):
    token = created(ada)["token"]
    principal = _by_api_token(token)
    assert recheck(principal)

    ApiToken.objects.all().delete()

    assert not recheck(principal)


@pytest.mark.parametrize(
    "body",
    [{"name": ""}, {"scope": "all"}, {"expiresInDays": 0}, {"expiresInDays": 366}, {"more": 1}],
)
def test_what_is_no_token_is_refused(ada, body: dict[str, Any]):
    answer = ada.auth("tokens", {"name": "x", "scope": "read"} | body)

    assert problem(answer)[0] == 400


def test_a_token_of_someone_else_is_not_there(ada, admin):
    made = created(admin)

    assert problem(revoke(ada, made["tokenId"])) == (404, "not_found")
    assert problem(revoke(ada, "x")) == (404, "not_found")
    assert ada.get("/api/v1/auth/tokens").json()["tokens"] == []


def test_me_says_which_token_asks_and_until_when(ada):
    made = created(ada, scope="read")

    told = Api(token=made["token"]).me().json()

    assert {name: told["token"][name] for name in made if name != "token"} == {
        name: value for name, value in made.items() if name != "token"
    }
    assert told["expiresAt"] == made["expiresAt"]
    assert made["token"] not in str(told)
    assert "token" not in ada.me().json()
