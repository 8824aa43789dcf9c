"""Every route × the session of a CI job: what it reaches is listed here, and nothing else."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from django.test import Client

from apps.accounts.domain.ci_sessions import rule_digest
from apps.accounts.domain.tokens import hash_token
from apps.accounts.models import CiSession, Workspace
from apps.accounts.services.ci_sessions import trust_rules
from apps.accounts.services.sign_up import sign_up
from kernel import clock
from kernel.ids import new_uuid
from tests.architecture.test_public_routes import METHODS, PUBLIC, routes

RUN: Final = "api/v1/executions/{}"
REACHED: Final = {
    "GET api/v1/executions",
    "POST api/v1/executions",
    f"GET {RUN}",
    *(
        f"GET {RUN}/{name}"
        for name in (
            *("artifacts/archive", "artifacts/{}", "artifacts/{}/image", "events", "junit"),
            *("logs", "logs/at", "logs/search", "probes", "since-green", "timeline"),
        )
    ),
    f"POST {RUN}/cancel",
    f"POST {RUN}/rerun",
    "POST api/v1/auth/sign-out",
}
# who has another kind of credential is asked for it, whatever this one is
OUT_OF_REACH: Final = {"ci_session_limited", "unauthenticated", "agent_credential_invalid"}
SIGN_IN: Final = ("/sign-in", "/admin/login/")


@pytest.fixture
def token(settings: Any, tmp_path: Path, db: None) -> str:
    """The token of a session, which a sign-out of each route ends."""
    sign_up(full_name="Ada", email="ada@example.org", password="Correct-Horse-1")
    workspace = Workspace.objects.get()
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    rule = {
        "name": "shop",
        "issuer": "https://ci.example",
        "audience": "https://partita.example",
        "repositories": ["acme/shop"],
        "workspace": workspace.slug,
        "suites": ["*"],
    }
    agents = [{"agentId": "edge", "name": "Edge", "type": "remote-agent"}]
    text = yaml.safe_dump({"agents": agents, "ciTrust": [rule]})
    settings.PLATFORM_SETTINGS_FILE.write_text(text)
    secret = "pci_" + "x" * 43
    CiSession.objects.create(
        workspace=workspace,
        owner_id=new_uuid(),
        token_hash=hash_token(secret),
        job_token_hash=hash_token("job"),
        rule_name="shop",
        rule_digest=rule_digest(trust_rules()[0]),
        job="github: acme/shop@refs/heads/main by workflow CI",
        role="runner",
        suites=["*"],
        expires_at=clock.now() + timedelta(hours=1),
        kept_until=clock.now() + timedelta(hours=1),
    )
    return secret


@pytest.mark.django_db(transaction=True)
def test_a_session_of_a_ci_job_reaches_what_is_listed(token: str) -> None:
    """Invariant 17."""
    client = Client(raise_request_exception=False)
    reached = set()
    for route in routes():
        if route in PUBLIC:
            continue
        path = "/" + route.replace("{}", "run-0123456789ab", 1).replace("{}", "x")
        for method in METHODS:
            answer = client.generic(
                method, path, b"{}", content_type="application/json",
                headers={"Authorization": f"Bearer {token}"},
            )  # fmt: skip
            if is_reached(answer):
                reached.add(f"{method} {route}")
            CiSession.objects.update(ended_at=None)

    assert reached == REACHED


def is_reached(answer: Any) -> bool:
    if answer.status_code == 302 and answer.headers["Location"].startswith(SIGN_IN):
        return False
    if answer.status_code == 405:
        return False
    is_problem = answer.headers.get("Content-Type", "").startswith("application/problem+json")
    return not (is_problem and answer.json()["code"] in OUT_OF_REACH)
