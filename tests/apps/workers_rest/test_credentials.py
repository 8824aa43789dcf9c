"""Invariants 7, 8: who may call the agent routes."""

from __future__ import annotations

import json
import logging

import pytest

from tests.apps.executions.runs import booted_run, node
from tests.apps.workers_rest.conftest import SECRET, UNKNOWN_JOB, Caller
from tests.support.api_clients import problem

JOB = f"agent-control/jobs/{UNKNOWN_JOB}"
ROUTES = [
    ("POST", "agents/register"),
    ("POST", "agents/edge-1/heartbeat"),
    ("POST", "agent-control/claims/next"),
    *(("POST", f"{JOB}/{what}") for what in ("lease", "state", "logs", "complete")),
    ("GET", f"{JOB}/content?attempt=1"),
    ("POST", f"{JOB}/artifacts?attempt=1&path=x"),
]
WITH_SESSION = [("GET", "agents"), ("DELETE", "agents/edge-1")]
BODIES = [
    "agent-control/claims/next",
    *(f"{JOB}/{what}" for what in ("lease", "state", "logs", "complete")),
]
FULL = {"attempt": 1, "state": "running", "seq": 0, "lines": [], "status": "succeeded"}


@pytest.mark.parametrize("secret", ["", "fifteen-letters"])
@pytest.mark.parametrize(("method", "path"), [*ROUTES, *WITH_SESSION])
def test_without_a_shared_secret_no_agent_route_is_open(worker, settings, method, path, secret):
    """Invariant 8; before anything else is looked at."""
    settings.AGENT_SHARED_SECRET = secret

    for caller in (worker, Caller(), Caller(secret or SECRET)):
        answer = caller.client.generic(
            method, f"/api/v1/{path}", b"{", content_type="text/odd", headers=caller.bearer
        )
        assert problem(answer) == (503, "agent_secret_unset")
        assert answer["Retry-After"]


def test_without_a_shared_secret_sessions_still_work(worker, member, admin, settings):
    settings.AGENT_SHARED_SECRET = ""

    assert member.get("agents").status_code == 200
    assert problem(member.delete("agents/edge-1")) == (403, "admin_required")
    assert admin.delete("agents/edge-1").status_code == 200


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_agent_routes_take_nobody_and_no_user(worker, member, admin, method, path):
    """Invariant 8; the shared secret is for registering only."""
    callers = [Caller(), Caller("wrong"), Caller("é"), member, admin]
    for caller in [*callers, worker if "register" in path else Caller(SECRET)]:
        answer = caller.call(method, path, FULL | {"agentId": "edge-1"})
        assert problem(answer) == (401, "agent_credential_invalid")
        assert answer["WWW-Authenticate"] == "Bearer"


def test_the_list_wants_a_session_or_an_agent(worker):
    assert problem(Caller().get("agents")) == (401, "unauthenticated")
    assert problem(Caller("wrong").get("agents")) == (401, "agent_credential_invalid")
    assert problem(Caller("eyJ.e30.x").get("agents")) == (401, "token_invalid")
    assert worker.get("agents").status_code == 200


@pytest.mark.parametrize("path", BODIES)
def test_a_body_that_names_another_agent_is_refused(worker, other, path):
    assert problem(worker.post(path, FULL | {"agentId": "edge-2"})) == (403, "agent_mismatch")


@pytest.mark.parametrize("path", BODIES)
def test_a_body_names_its_agent(worker, path):
    answer = worker.post(path, FULL)

    assert problem(answer) == (400, "validation_failed")
    assert answer.json()["errors"][0]["pointer"] == "/agentId"


def test_a_path_that_names_another_agent_is_refused(worker, other):
    assert problem(worker.post("agents/edge-2/heartbeat")) == (403, "agent_mismatch")


def test_what_an_agent_does_is_audited_with_its_id(worker, caplog):
    logging.getLogger("partita.audit").addHandler(caplog.handler)
    try:
        worker.post("agents/edge-1/heartbeat")
        worker.claim()
        worker.register()
    finally:
        logging.getLogger("partita.audit").removeHandler(caplog.handler)

    lines = [line.getMessage() for line in caplog.records if line.name == "partita.audit"]
    records = [each for line in lines if (each := json.loads(line))["type"] == "http.audit"]
    assert [(record["route"], record["agentId"]) for record in records] == [
        ("/api/v1/agents/{agentId}/heartbeat", "edge-1"),
        ("/api/v1/agent-control/claims/next", "edge-1"),
        ("/api/v1/agents/register", "edge-1"),
    ]
    assert SECRET not in caplog.text
    assert worker.token not in caplog.text


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "agents/register", {"POST", "OPTIONS"}),
        ("GET", "agent-control/claims/next", {"POST", "OPTIONS"}),
        ("GET", f"{JOB}/lease", {"POST", "OPTIONS"}),
        ("POST", f"{JOB}/content", {"GET", "HEAD", "OPTIONS"}),
    ],
)
def test_other_methods_are_told_what_is_allowed(worker, method, path, allowed):
    caller = Caller(SECRET) if "register" in path else worker
    answer = caller.call(method, path)

    assert problem(answer) == (405, "method_not_allowed")
    assert {name.strip() for name in answer["Allow"].split(",")} == allowed


def test_a_foreign_job_is_refused_with_the_own_name(worker, other):
    """Invariant 8: a job accepted without that agent's credential."""
    booted_run(node("a"))
    worker.claim()
    other.jobs = worker.jobs

    assert problem(other.complete("a")) == (409, "stale_attempt")
