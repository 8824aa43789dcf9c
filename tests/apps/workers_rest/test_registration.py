"""`/agents`: registering, hearing from, listing and removing workers.

(reference: control-plane 15.1)
"""

from __future__ import annotations

import pytest

from apps.agents import api as agents
from apps.agents.api import Registration
from apps.agents.models import Agent
from apps.operations.api import installation_id
from kernel import clock
from tests.apps.executions.runs import booted_run, node
from tests.apps.workers_rest.conftest import SECRET, UNKNOWN_JOB, Caller, InThread, RemoteWorker
from tests.support.api_clients import problem

registrar = Caller(SECRET)


def test_a_worker_registers_and_gets_a_token_of_its_own():
    body = {
        "agentId": "edge-1",
        "name": "Edge one",
        "hostUrl": "https://edge-1.example:8091",
        "capabilities": ["task", "test"],
        "labels": {"gpu": "", "zone": "b"},
        "version": "1.2.3",
        "incarnation": "first",
        "activeJobs": [],
        "somethingNewer": {"is": "ignored"},
    }

    answer = registrar.post("agents/register", body)

    assert answer.status_code == 201
    assert answer["Cache-Control"] == "no-store"
    wire = answer.json()
    assert len(wire.pop("agentToken")) >= 32
    assert wire.pop("installationId") == installation_id()
    assert wire.pop("registeredAt") <= wire.pop("lastHeartbeatAt")
    assert wire == {
        "agentId": "edge-1",
        "kind": "worker",
        "runtimeAvailable": True,
        "leaseGraceMs": 30_000,
        "name": "Edge one",
        "hostUrl": "https://edge-1.example:8091",
        "status": "online",
        "capabilities": ["task", "test"],
        "backends": ["edge-1"],
        "labels": {"gpu": "", "zone": "b"},
        "version": "1.2.3",
        "runningJobs": 0,
        "heartbeatIntervalMs": 10_000,
        "leaseMs": 30_000,
        "keepJobs": [],
        "dropJobs": [],
    }


def test_a_blank_name_is_the_agent_id():
    assert registrar.post("agents/register", {"agentId": "e", "name": " "}).json()["name"] == "e"


def test_registering_again_keeps_when_it_first_came_and_kills_the_old_token(worker):
    first, old = Agent.objects.get(), worker.token
    worker.register(name="renamed")

    assert Agent.objects.get().registered_at == first.registered_at
    assert problem(Caller(old).post("agents/edge-1/heartbeat")) == (401, "agent_credential_invalid")
    assert worker.post("agents/edge-1/heartbeat").json()["name"] == "renamed"


def test_jobs_that_are_named_are_kept_and_the_others_lost(worker):
    run = booted_run(node("a"), node("b", idempotent=True))
    worker.claim_all()
    worker.report("a", "state", state="running")
    worker.report("b", "state", state="running")
    worker.log("a", "one", "two")

    named = [worker.jobs["a"]["jobId"], UNKNOWN_JOB]
    answer = worker.register(activeJobs=[{"jobId": job, "attempt": 1} for job in named])

    kept = {"jobId": worker.jobs["a"]["jobId"], "attempt": 1, "nextSeq": 2, "position": 2}
    assert answer["keepJobs"] == [kept]
    assert answer["dropJobs"] == [UNKNOWN_JOB]
    assert run.statuses == {"a": "running", "b": "queued"}
    assert worker.log("a", "three", seq=2).json()["nextSeq"] == 3


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("http://127.0.0.1:8091/", "http://127.0.0.1:8091"),
        ("http://edge_1.lan/workers/1/", "http://edge_1.lan/workers/1"),
        ("https://[fd00::1]:8091", "https://[fd00::1]:8091"),
        ("", None),
    ],
)
def test_a_worker_may_be_called_on_a_private_network(given, kept):
    answer = registrar.post("agents/register", {"agentId": "e", "hostUrl": given})

    assert (answer.status_code, answer.json().get("hostUrl")) == (201, kept)


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({}, "/agentId", "required"),
        ({"agentId": 3}, "/agentId", "wrong_type"),
        ({"agentId": "a b"}, "/agentId", "invalid_value"),
        ({"agentId": "runner:host"}, "/agentId", "invalid_value"),
        ({"agentId": "e" * 129}, "/agentId", "invalid_value"),
        ({"agentId": "e", "hostUrl": "ftp://x"}, "/hostUrl", "invalid_value"),
        ({"agentId": "e", "hostUrl": "http://user:word@x"}, "/hostUrl", "invalid_value"),
        ({"agentId": "e", "hostUrl": "http://x?y"}, "/hostUrl", "invalid_value"),
        ({"agentId": "e", "hostUrl": "http://x#y"}, "/hostUrl", "invalid_value"),
        ({"agentId": "e", "hostUrl": "http://x:0"}, "/hostUrl", "invalid_value"),
        ({"agentId": "e", "hostUrl": "http://127.1"}, "/hostUrl", "invalid_value"),
        ({"agentId": "e", "hostUrl": "http://169.254.169.254"}, "/hostUrl", "invalid_value"),
        ({"agentId": "e", "hostUrl": "http://[::ffff:a9fe:a9fe]"}, "/hostUrl", "invalid_value"),
        ({"agentId": "e", "hostUrl": "http://x\n"}, "/hostUrl", "invalid_value"),
        ({"agentId": "e", "hostUrl": "http://x/" + "a" * 500}, "/hostUrl", "invalid_value"),
        ({"agentId": "e", "hostUrl": ["http://x"]}, "/hostUrl", "wrong_type"),
        ({"agentId": "e", "backends": "edge"}, "/backends", "wrong_type"),
        ({"agentId": "e", "backends": ["a/b"]}, "/backends/0", "invalid_value"),
        ({"agentId": "e", "labels": {"a": 1}}, "/labels/a", "wrong_type"),
        ({"agentId": "e", "incarnation": "x" * 65}, "/incarnation", "invalid_value"),
        ({"agentId": "e", "activeJobs": [{}]}, "/activeJobs/0/jobId", "required"),
        (
            {"agentId": "e", "activeJobs": [{"jobId": "x", "attempt": 1}]},
            "/activeJobs/0/jobId",
            "invalid_value",
        ),
        ([], "", "wrong_type"),
    ],
)
def test_a_registration_that_is_malformed_names_the_key(body, pointer, code):
    answer = registrar.post("agents/register", body)

    assert problem(answer) == (400, "validation_failed")
    fault = answer.json()["errors"][0]
    assert (fault.get("pointer", ""), fault["code"]) == (pointer, code)


def test_thirty_registrations_a_minute_from_one_address_are_enough():
    for _ in range(30):
        assert problem(Caller("wrong").post("agents/register"))[0] == 401

    refused = registrar.post("agents/register", {"agentId": "e"})

    assert problem(refused) == (429, "rate_limited")
    assert int(refused["Retry-After"]) > 0


def test_two_first_registrations_at_once_are_both_answered():
    answers = [InThread(lambda: RemoteWorker(agent_id="new").register()) for _ in range(4)]

    assert {answer.result()["agentId"] for answer in answers} == {"new"}
    assert Agent.objects.count() == 1


def test_a_heartbeat_is_stored_and_answers_what_may_be_removed(worker):
    run = booted_run(node("a"))
    body = {"runningJobs": 2, "runtimeAvailable": False, "runs": [run.id, "run-0123456789ab"]}

    answer = worker.post("agents/edge-1/heartbeat", body)

    assert answer.status_code == 200
    assert answer.json()["runningJobs"] == 2
    assert answer.json()["releaseRuns"] == ["run-0123456789ab"], "unknown here: nobody needs it"
    assert Agent.objects.get().runtime_available is False


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"runningJobs": -1}, "/runningJobs"),
        ({"runningJobs": 2**31}, "/runningJobs"),
        ({"runtimeAvailable": "yes"}, "/runtimeAvailable"),
        ({"runs": ["../x"]}, "/runs/0"),
        ({"failingLoops": "claims"}, "/failingLoops"),
        ({"failingLoops": ["claims", "https://edge-1.example"]}, "/failingLoops/1"),
        ({"failingLoops": ["x" * 65]}, "/failingLoops/0"),
        ({"failingLoops": ["claims"] * 21}, "/failingLoops"),
    ],
)
def test_a_heartbeat_that_is_malformed_is_refused(worker, body, pointer):
    answer = worker.post("agents/edge-1/heartbeat", body)

    assert problem(answer) == (400, "validation_failed")
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_a_heartbeat_names_failing_loops_which_the_list_shows_until_the_next(worker, member):
    named = worker.post("agents/edge-1/heartbeat", {"failingLoops": ["claims"]})
    (listed,) = member.get("agents").json()["agents"]
    worker.post("agents/edge-1/heartbeat")
    (cleared,) = member.get("agents").json()["agents"]

    assert named.json()["failingLoops"] == listed["failingLoops"] == ["claims"]
    assert "failingLoops" not in cleared


def test_the_list_is_by_name_paged_and_filtered(worker, other, member):
    other.register(name="a first one")
    Agent.objects.filter(agent_id="edge-1").update(
        last_heartbeat_at=clock.parse_rfc3339("2026-01-01T00:00:00Z")
    )

    def listed(query: str = "") -> list[tuple[str, str]]:
        agents = member.get(f"agents{query}").json()["agents"]
        return [(agent["agentId"], agent["status"]) for agent in agents]

    assert listed() == [("edge-2", "online"), ("edge-1", "offline")]
    assert listed("?status=offline") == [("edge-1", "offline")]
    page = member.get("agents?limit=1").json()
    assert listed(f"?limit=1&cursor={page['nextCursor']}") == [("edge-1", "offline")]
    assert worker.get("agents").json() == member.get("agents").json()
    assert problem(member.get("agents?status=gone")) == (400, "invalid_parameter")
    assert problem(member.get("agents?name=x")) == (400, "unknown_parameter")


def test_an_administrator_removes_an_agent_as_often_as_wanted(worker, admin):
    run = booted_run(node("unit", kind="test"))
    worker.claim()
    worker.report("unit", "state", state="running")

    for _ in range(2):
        answer = admin.delete("agents/edge-1")
        assert (answer.status_code, answer.json()) == (200, {"status": "removed"})

    assert problem(worker.log("unit", "late")) == (401, "agent_credential_invalid")
    assert run.reasons == {"unit": "agent_lost"}
    assert admin.get("agents").json() == {"agents": []}


def test_an_agent_removes_itself_and_nobody_else(worker, other):
    assert problem(worker.delete("agents/edge-2")) == (403, "agent_mismatch")
    assert worker.delete("agents/edge-1").json() == {"status": "removed"}
    assert problem(worker.delete("agents/edge-1")) == (401, "agent_credential_invalid")
    assert other.get("agents").json()["agents"][0]["agentId"] == "edge-2"


def test_a_runner_that_is_online_is_not_removed(admin):
    agents.register(Registration(agent_id="runner:vm", incarnation="1", kind="runner"))

    refused = admin.delete("agents/runner:vm")

    assert problem(refused) == (409, "agent_online")
    assert "stop its process" in refused.json()["detail"]
    assert [each.agent_id for each in agents.list_agents()] == ["runner:vm"]


def test_a_runner_that_has_stopped_is_removed(admin):
    agents.register(Registration(agent_id="runner:vm", incarnation="1", kind="runner"))
    Agent.objects.update(last_heartbeat_at=clock.now() - agents.OFFLINE_AFTER)

    assert admin.delete("agents/runner:vm").json() == {"status": "removed"}
    assert agents.list_agents() == ()


def test_members_may_not_remove_agents(worker, member):
    """Invariant 17."""
    assert problem(member.delete("agents/edge-1")) == (403, "admin_required")
    assert worker.post("agents/edge-1/heartbeat").status_code == 200


@pytest.mark.parametrize("agent_id", ["nobody", "%00", "é", "%ff", "a" * 400])
def test_removing_what_cannot_be_registered_changes_nothing(admin, agent_id):
    assert admin.delete(f"agents/{agent_id}").json() == {"status": "removed"}


def test_an_agent_is_shown_as_draining_until_it_is_resumed(admin, worker):
    drained = admin.post("agents/edge-1/drain")

    assert drained.json()["draining"] is True
    (agent,) = agents.list_agents()
    assert agent.drained_by
    assert admin.post("agents/edge-1/drain").json()["draining"] is True

    assert "draining" not in admin.post("agents/edge-1/resume").json()
    assert not agents.is_draining("edge-1")


@pytest.mark.parametrize("what", ["drain", "resume"])
def test_members_and_workers_may_not_drain_agents(worker, member, what):
    """Invariant 17."""
    assert problem(member.post(f"agents/edge-1/{what}")) == (403, "admin_required")
    assert worker.post(f"agents/edge-1/{what}").status_code == 401
    assert not agents.is_draining("edge-1")


@pytest.mark.parametrize("what", ["drain", "resume"])
@pytest.mark.parametrize("agent_id", ["nobody", "%00", "é", "a" * 400])
def test_an_agent_that_is_not_registered_is_not_drained(admin, agent_id, what):
    assert problem(admin.post(f"agents/{agent_id}/{what}")) == (404, "agent_not_found")
