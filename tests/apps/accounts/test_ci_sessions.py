"""CI jobs sign in with their own token: who gets a session, who does not, and what it reaches."""

from __future__ import annotations

import base64
import hmac
import json
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from django.core import serializers

from apps.accounts.lifespan import purge_expired
from apps.accounts.models import CiSession, Workspace
from apps.accounts.services import ci_keys
from apps.accounts.services.authentication import recheck
from apps.accounts.services.ci_sessions import ci_principal, ci_session_row
from apps.accounts.services.token_pairs import end_every_sign_in
from apps.platform_settings.services.live_settings import live_settings
from kernel.clock import now
from tests.apps.accounts.conftest import Api
from tests.support.api_clients import problem
from tests.support.ci_issuer import AUDIENCE, CiIssuer, ci_issuer, github_claims, gitlab_claims
from tests.support.oidc import signing_key
from tests.support.threads import at_once

pytestmark = pytest.mark.store
AGENTS = [{"agentId": "edge", "name": "Edge", "type": "remote-agent"}]
Trust = Callable[..., None]


@pytest.fixture
def issuer() -> Iterator[CiIssuer]:
    ci_keys.forget_issuer_keys()
    with ci_issuer() as issuer:
        yield issuer


@pytest.fixture
def trust(settings, tmp_path, issuer: CiIssuer) -> Trust:
    """Set the rules: those of main and of release branches of acme/shop, or others."""
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"

    def write(*rules: dict[str, Any]) -> None:
        known = {
            "name": "shop-main",
            "issuer": issuer.issuer,
            "audience": AUDIENCE,
            "repositories": ["acme/shop"],
            "workspace": Workspace.objects.get().slug,
            "suites": ["shop", "team-*"],
            "allowLocalNetwork": True,
        }
        whole = [known | rule for rule in rules or ({"branches": ["main"]},)]
        document = {"agents": AGENTS, "ciTrust": whole}
        settings.PLATFORM_SETTINGS_FILE.write_text(yaml.safe_dump(document))

    return write


@pytest.fixture
def said(caplog) -> Iterator[Callable[[], str]]:
    """What the log and the audit record say."""
    audit = logging.getLogger("partita.audit")
    audit.addHandler(caplog.handler)
    yield lambda: "\n".join(record.getMessage() for record in caplog.records)
    audit.removeHandler(caplog.handler)


def exchange(token: str) -> Any:
    return Api().auth("ci", {"token": token})


def session(token: str) -> Api:
    answer = exchange(token)
    assert answer.status_code == 201, answer.content
    return Api(token=answer.json()["token"])


def test_a_job_gets_a_session_of_its_rule(ada, ada_row, issuer, trust, said):
    trust()

    answer = exchange(issuer.token())

    body = answer.json()
    assert (answer.status_code, answer["Cache-Control"]) == (201, "no-store")
    assert body.pop("token").startswith("pci_")
    assert timedelta(minutes=59) < CiSession.objects.get().expires_at - now()
    assert body.pop("expiresAt").endswith("Z")
    assert body == {
        "workspaceId": str(ada_row.workspace_id),
        "role": "runner",
        "suites": ["shop", "team-*"],
        "rule": "shop-main",
        "launchedBy": "github: acme/shop@refs/heads/main by workflow CI",
    }
    assert "by rule shop-main: github: acme/shop@refs/heads/main by workflow CI" in said()


def test_a_workspace_named_like_the_id_of_another_does_not_take_its_place(
    ada, ada_row, issuer, trust
):
    meant = str(ada_row.workspace_id)
    trust({"workspace": meant})
    Workspace.objects.create(name="Mallory", slug=meant)

    assert exchange(issuer.token()).json()["workspaceId"] == meant


def test_neither_token_is_stored_or_written_anywhere(ada, issuer, trust, said):
    """Invariant 19."""
    trust()
    token = issuer.token()

    given = session(token)
    given.get("/api/v1/executions/run-0123456789ab")
    exchange(token)

    stored = serializers.serialize("json", CiSession.objects.all())
    for secret in (token, token.rpartition(".")[2], given.token, given.token.removeprefix("pci_")):
        assert secret not in stored
        assert secret not in said()


def pem(issuer: CiIssuer) -> bytes:
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    public = issuer.keys["k1"].public_key()
    return bytes(public.public_bytes(serialization.Encoding.PEM, spki))


def encoded(part: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def with_hmac(issuer: CiIssuer) -> str:
    """Return a token that the public key signs, as if it were a secret."""
    head = encoded({"alg": "HS256", "typ": "JWT", "kid": "k1"})
    signed = f"{head}.{issuer.token().split('.')[1]}"
    mac = hmac.new(pem(issuer), signed.encode(), "sha256").digest()
    return f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def unsigned(issuer: CiIssuer) -> str:
    return f"{encoded({'alg': 'none', 'kid': 'k1'})}.{issuer.token().split('.')[1]}."


def in_s(seconds: int) -> int:
    return int(now().timestamp()) + seconds


REFUSED: dict[str, tuple[Callable[[CiIssuer], str], tuple[int, str], str]] = {
    "another issuer": (
        lambda ci: ci.token(iss="https://evil.example"),
        (401, "ci_token_invalid"),
        "no rule trusts its issuer 'https://evil.example'",
    ),
    "another audience": (
        lambda ci: ci.token(aud="https://other.example"),
        (403, "ci_refused"),
        'rule shop-main: the audience is "https://other.example"',
    ),
    "a shared audience": (
        lambda ci: ci.token(aud=[AUDIENCE, "https://other.example"]),
        (403, "ci_refused"),
        "rule shop-main: the audience is",
    ),
    "another repository": (
        lambda ci: ci.token(repository="acme/other"),
        (403, "ci_refused"),
        'rule shop-main: repository "acme/other" is none of acme/shop',
    ),
    "another branch": (
        lambda ci: ci.token(ref="refs/heads/feature"),
        (403, "ci_refused"),
        'rule shop-main: ref "refs/heads/feature" is none of main',
    ),
    "another environment": (
        lambda ci: ci.token(repository="acme/web", environment="staging"),
        (403, "ci_refused"),
        'rule web: environment "staging" is none of production',
    ),
    "a fork": (
        lambda ci: ci.token(event_name="pull_request", ref="refs/pull/7/merge"),
        (403, "ci_refused"),
        'rule shop-main: "pull_request" may run the code of a fork',
    ),
    "a fork that runs on main": (
        lambda ci: ci.token(event_name="pull_request_target"),
        (403, "ci_refused"),
        'rule shop-main: "pull_request_target" may run the code of a fork',
    ),
    "no such workspace": (
        lambda ci: ci.token(repository="acme/gone"),
        (403, "ci_refused"),
        "rule gone: there is no workspace 'gone'",
    ),
    "expired": (
        lambda ci: ci.token(exp=in_s(-40)),
        (401, "ci_token_expired"),
        "it has expired",
    ),
    "not yet": (
        lambda ci: ci.token(nbf=in_s(90)),
        (401, "ci_token_invalid"),
        "ImmatureSignatureError",
    ),
    "issued later": (
        lambda ci: ci.token(iat=in_s(90)),
        (401, "ci_token_invalid"),
        "ImmatureSignatureError",
    ),
    "without an end": (
        lambda ci: ci.token(exp=None),
        (401, "ci_token_invalid"),
        "MissingRequiredClaimError",
    ),
    "too long a life": (
        lambda ci: ci.token(exp=in_s(8 * 86_400)),
        (401, "ci_token_invalid"),
        "it lives longer than 7 days",
    ),
    "an endless life": (
        lambda ci: ci.token(exp=10**30),
        (401, "ci_token_invalid"),
        "the token is not valid",
    ),
    "a life beyond the years of a calendar": (
        lambda ci: ci.token(exp=10**17),
        (401, "ci_token_invalid"),
        "it lives longer than 7 days",
    ),
    "unsigned": (unsigned, (401, "ci_token_invalid"), "the algorithm 'none' is not allowed"),
    "HMAC by the public key": (
        with_hmac,
        (401, "ci_token_invalid"),
        "the algorithm 'HS256' is not allowed",
    ),
    "another key": (
        lambda ci: ci.token(key=signing_key("another")),
        (401, "ci_token_invalid"),
        "InvalidSignatureError",
    ),
    "an unknown key id": (
        lambda ci: ci.token(header={"kid": "k9"}),
        (401, "ci_token_invalid"),
        "the issuer has no key 'k9'",
    ),
    "a key in the token": (
        lambda ci: ci.token(header={"kid": "k9", "jku": f"{ci.issuer}/mine", "jwk": {}}),
        (401, "ci_token_invalid"),
        "the issuer has no key 'k9'",
    ),
    "without a key id": (
        lambda ci: ci.token(header={"kid": ""}),
        (401, "ci_token_invalid"),
        "the issuer has no key ''",
    ),
    "critical extensions": (
        lambda ci: ci.token(header={"kid": "k1", "crit": ["b64"], "b64": False}),
        (401, "ci_token_invalid"),
        "the token is not valid",
    ),
    "another algorithm of the key": (
        lambda ci: ci.token(algorithm="PS256"),
        (401, "ci_token_invalid"),
        "the issuer has no key 'k1' for PS256",
    ),
    "huge": (
        lambda ci: ci.token(padding="x" * 10_000),
        (401, "ci_token_invalid"),
        "more than 8192",
    ),
    "no token": (lambda _: "one.two.three", (401, "ci_token_invalid"), "DecodeError"),
    "no text of a token": (lambda _: "\u2603 " * 9, (401, "ci_token_invalid"), "not valid"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_who_is_refused_hears_a_code_and_the_log_says_why(ada, issuer, trust, said, case):
    make, expected, why = REFUSED[case]
    trust(
        {"branches": ["main"]},
        {"name": "web", "repositories": ["acme/web"], "environments": ["production"]},
        {"name": "gone", "repositories": ["acme/gone"], "workspace": "gone"},
    )

    answer = exchange(make(issuer))

    assert problem(answer) == expected
    assert why in said()
    told = answer.content.decode()
    assert not any(secret in told for secret in ("shop-main", "web", "acme", "none of"))
    assert not CiSession.objects.exists()


def test_an_issuer_that_no_rule_names_is_never_asked(ada, trust, issuer):
    trust({"issuer": "https://ci.example"})

    assert problem(exchange(issuer.token())) == (401, "ci_token_invalid")
    assert issuer.asked == []


def test_a_token_is_good_for_one_session(ada, issuer, trust, said):
    trust()
    token = issuer.token()
    first = session(token)

    assert problem(exchange(token)) == (401, "ci_token_used")
    assert "was used before" in said()
    first.auth("sign-out")
    assert problem(exchange(token)) == (401, "ci_token_used")


def test_another_signature_of_a_used_token_is_the_same_token(ada, issuer, trust):
    trust()
    claims = {"jti": None}
    session(issuer.token(jti="once"))
    assert problem(exchange(issuer.token(jti="once", exp=in_s(200)))) == (401, "ci_token_used")

    fixed = {"iat": in_s(0), "exp": in_s(200), "nbf": in_s(-9)}
    session(issuer.token(**claims, **fixed))
    assert problem(exchange(issuer.token(**claims, **fixed))) == (401, "ci_token_used")


@pytest.mark.django_db(transaction=True)
def test_of_two_at_once_one_gets_a_session(ada, issuer, trust):
    trust()
    token = issuer.token()
    session(issuer.token())  # the keys are known

    answers = at_once([lambda: exchange(token).status_code] * 4)

    assert sorted(answers) == [201, 401, 401, 401]


def test_an_unknown_key_id_is_asked_for_once_a_minute(ada, issuer, trust, monkeypatch):
    trust()
    session(issuer.token())
    for _ in range(3):
        exchange(issuer.token(header={"kid": "k2"}, key=signing_key("next")))
    assert issuer.asked.count("/jwks") == 1

    issuer.keys = {"k2": signing_key("next")}
    monkeypatch.setattr(ci_keys, "_AGAIN_S", 0.0)
    session(issuer.token(header={"kid": "k2"}, key=signing_key("next")))

    assert issuer.asked.count("/jwks") == 2


def test_a_key_that_the_issuer_withdrew_counts_no_longer(ada, issuer, trust, monkeypatch):
    trust()
    session(issuer.token())
    old = issuer.keys.pop("k1")
    issuer.keys["k2"] = signing_key("next")
    monkeypatch.setattr(ci_keys, "_LIFE_S", 0.0)
    monkeypatch.setattr(ci_keys, "_AGAIN_S", 0.0)

    assert problem(exchange(issuer.token(key=old))) == (401, "ci_token_invalid")


SPOILT: dict[str, dict[str, Any]] = {
    "an error": {"status": 500},
    "a redirect": {"status": 302},
    "keys that are no JSON": {"jwks": b"no JSON"},
    "a list": {"jwks": []},
    "keys that are no list": {"jwks": {"keys": "none"}},
    "too many keys": {"jwks": {"keys": [{"kid": str(n)} for n in range(101)]}},
    "a long document": {"jwks": b'{"keys": [], "x": "' + b"x" * 300_000 + b'"}'},
    "a deep document": {"jwks": b"[" * 100_000},
    "the document of another": {"document": {"issuer": "https://evil.example"}},
    "no address of keys": {"document": {"jwks_uri": None}},
    "an address without TLS": {"document": {"jwks_uri": "http://192.0.2.1/jwks"}},
    "an address of a file": {"document": {"jwks_uri": "file:///etc/passwd"}},
    "an address that is none": {"document": {"jwks_uri": "https://ci.example\x00/jwks"}},
}


@pytest.mark.parametrize("case", SPOILT)
def test_an_issuer_that_cannot_be_read_is_not_the_fault_of_the_job(ada, issuer, trust, case):
    trust()
    for name, value in SPOILT[case].items():
        setattr(issuer, name, value)

    assert problem(exchange(issuer.token())) == (503, "ci_issuer_unavailable")
    before = len(issuer.asked)
    exchange(issuer.token())
    assert len(issuer.asked) == before  # it is left alone for a while


@pytest.mark.parametrize(
    "key",
    [
        {"kty": "oct", "k": "AAAA", "alg": "HS256"},
        {"kty": "RSA", "use": "enc", "n": "AQAB", "e": "AQAB"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        {"kty": "unknown"},
        {},
    ],
    ids=str,
)
def test_a_key_of_another_kind_checks_no_signature(ada, issuer, trust, key):
    trust()
    issuer.jwks = {"keys": [{"kid": "k1"} | key, 7, {"kid": 7}]}

    assert problem(exchange(issuer.token())) == (401, "ci_token_invalid")


def test_an_issuer_that_is_away_keeps_its_keys_for_an_hour(ada, issuer, trust, monkeypatch):
    trust()
    session(issuer.token())
    issuer.status = 500
    monkeypatch.setattr(ci_keys, "_LIFE_S", 0.0)

    session(issuer.token())
    monkeypatch.setattr(ci_keys, "_LONGEST_LIFE_S", 0.0)
    assert problem(exchange(issuer.token())) == (503, "ci_issuer_unavailable")


def test_a_plain_or_local_issuer_is_asked_only_where_that_is_allowed(
    ada, issuer, trust, settings, said
):
    """Invariant 23."""
    trust({"allowLocalNetwork": False})
    assert problem(exchange(issuer.token())) == (503, "ci_issuer_unavailable")

    ci_keys.forget_issuer_keys()
    trust()
    settings.SECURE_SITE = True
    assert problem(exchange(issuer.token())) == (503, "ci_issuer_unavailable")
    assert "is not an https address" in said()
    assert issuer.asked == []


def test_a_rule_with_a_fault_lets_nobody_in(ada, issuer, trust, settings):
    settings.CONFIG_VARIABLES = {"PARTITA_CONFIG_BRANCH": "main"}
    trust({"branches": ["${PARTITA_CONFIG_BRANCH}"]})
    session(issuer.token())
    settings.CONFIG_VARIABLES = {}
    live_settings.forget()

    assert problem(exchange(issuer.token())) == (401, "ci_token_invalid")


def test_jobs_of_gitlab_and_of_any_issuer_sign_in(ada, issuer, trust):
    trust(
        {"name": "lab", "repositories": ["acme/**"], "branches": ["main"]},
        {"name": "other", "repositories": [], "claims": ["sub=project-7:*"], "role": "viewer"},
    )

    lab = exchange(issuer.token(gitlab_claims())).json()
    other = exchange(issuer.token({"sub": "project-7:build"})).json()

    assert (lab["rule"], lab["launchedBy"]) == ("lab", "gitlab: acme/tools/shop@main by job 4711")
    assert (other["rule"], other["role"]) == ("other", "viewer")
    assert other["launchedBy"] == "127.0.0.1: project-7:build"


def test_a_session_reaches_runs_and_nothing_else(ada, ada_row, issuer, trust):
    trust()
    job = session(issuer.token())
    limited = (403, "ci_session_limited")

    for path in ("auth/me", "workspaces", "auth/tokens", "executions/overview"):
        assert problem(job.get(f"/api/v1/{path}")) == limited, path
    for path in ("auth/tokens", "auth/stream-tickets", "workspaces", "auth/sign-out-everywhere"):
        assert problem(job.post(f"/api/v1/{path}")) == limited, path
    assert problem(job.get("/api/v1/admin-only")) == limited
    assert job.get("/page/whoami").json() == {"email": None}
    assert job.get("/account").status_code == 302  # to the sign-in
    assert job.get("/api/v1/executions/run-0123456789ab/logs").json()["alive"] is True


def test_a_session_ends_at_its_time_at_its_wish_and_with_its_rule(ada, issuer, trust):
    """Invariant 18."""
    trust()
    late, gone, left = (session(issuer.token()) for _ in range(3))
    path = "/api/v1/executions/run-0123456789ab"

    CiSession.objects.filter(pk=CiSession.objects.order_by("created_at")[0].pk).update(
        expires_at=now()
    )
    assert problem(late.get(path)) == (401, "token_expired")
    assert gone.auth("sign-out").json() == {"status": "signed-out"}
    assert problem(gone.get(path)) == (401, "token_revoked")

    kept = ci_principal(ci_session_row(left.token))
    assert recheck(kept)
    trust({"branches": ["main"], "suites": ["shop"]})
    assert problem(left.get(path)) == (401, "token_revoked")
    assert not recheck(kept)
    assert problem(Api(token="pci_unknown").get(path)) == (401, "token_revoked")


def test_a_restored_store_ends_the_sessions_and_forgets_no_used_token(ada, issuer, trust):
    trust()
    token = issuer.token()
    job = session(token)

    end_every_sign_in()

    path = "/api/v1/executions/run-0123456789ab"
    assert problem(job.get(path)) == (401, "token_revoked")
    assert problem(exchange(token)) == (401, "ci_token_used")


def test_old_sessions_are_swept_once_their_token_can_no_longer_be_used(ada, issuer, trust):
    trust({"branches": ["main"], "expiresMinutes": 1})
    session(issuer.token(exp=in_s(3600)))
    row = CiSession.objects.get()
    assert row.kept_until - row.expires_at > timedelta(minutes=58)
    CiSession.objects.update(expires_at=now() - timedelta(minutes=1))

    purge_expired()
    assert CiSession.objects.exists()
    CiSession.objects.update(kept_until=now() - timedelta(seconds=1))
    purge_expired()

    assert not CiSession.objects.exists()


def test_each_use_is_audited_with_the_job(ada, issuer, trust, said):
    trust()
    job = session(issuer.token())

    job.get("/api/v1/executions/run-0123456789ab")

    line = json.loads(said().splitlines()[-1])
    assert line["note"].endswith(
        "by rule shop-main: github: acme/shop@refs/heads/main by workflow CI"
    )
    assert line["workspaceId"] == str(Workspace.objects.get().pk)
    assert "userId" not in line


def test_jobs_of_one_rule_and_repository_are_one_caller(ada, issuer, trust):
    trust({"name": "main", "branches": ["main"]}, {"name": "any"})
    for claims in ({}, {"run_id": "2"}, {"ref": "refs/heads/x"}):
        session(issuer.token(github_claims(**claims)))

    first, second, other = CiSession.objects.order_by("created_at")

    assert first.owner_id == second.owner_id != other.owner_id


def test_a_client_that_guesses_is_slowed_down(ada, trust):
    trust()
    answers = [exchange("x").status_code for _ in range(61)]

    assert answers[-1] == 429
