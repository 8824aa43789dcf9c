"""What a worker says over HTTP, and what it makes of the answers (reference: control-plane 15)."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest

from kernel import clock
from kernel.agent_protocol import (
    ArtifactUpload,
    Completion,
    LogChunk,
    LogLine,
    ProbeProgress,
    StateReport,
    StepUsage,
    job_of,
)
from tests.apps.workers_http.conftest import SECRET, Server
from tests.support import steps
from worker.control_plane.client import ControlPlaneClient, CredentialRefused
from worker.control_plane.held_jobs import HeldJobs
from worker.control_plane.http import HttpControlPlane, InstallationChanged
from worker.domain.control_plane import (
    ControlPlaneUnavailable,
    HeartbeatReport,
    LinesMissing,
    RequestRefused,
    StaleJob,
)

SPEC = steps.claim("run-0123456789ab", "one")
OTHER = steps.claim("run-0123456789ab", "two")
JOB, OTHER_JOB = job_of(SPEC), job_of(OTHER)
RUNNING = StateReport(job=JOB, state="running")


def line(text: str) -> LogLine:
    return LogLine(clock.now(), "info", "output", text)


async def test_the_secret_registers_and_the_token_does_everything_else(
    plane: HttpControlPlane, server: Server
):
    await plane.report(RUNNING)

    bearers = [request.headers["Authorization"] for request in server.asked]
    assert bearers == [f"Bearer {SECRET}", "Bearer token-1"]
    assert server.bodies("register")[0]["labels"] == {"zone": "eu"}
    assert plane.installation_id == "installation"


async def test_only_jobs_whose_specs_are_known_are_named(
    make: Callable[..., HttpControlPlane], held: HeldJobs, server: Server
):
    """The others cannot be gone on with: their containers are dropped, once."""
    held.hold(SPEC)
    server.keep = [{"jobId": JOB.job_id, "attempt": 1, "nextSeq": 7, "position": 9}]
    plane = make()

    registered = await plane.register([JOB, OTHER_JOB], runtime_available=True)
    again = await plane.register([JOB, OTHER_JOB], runtime_available=True)

    assert server.bodies("register")[0]["activeJobs"] == [{"jobId": JOB.job_id, "attempt": 1}]
    (kept,) = registered.keep
    assert (kept.job, kept.next_seq, kept.position, kept.spec) == (JOB, 7, 9, SPEC)
    assert (registered.drop, again.drop) == ((OTHER_JOB.job_id,), ())
    assert registered.heartbeat_s == 0.5


async def test_dropped_jobs_are_forgotten(
    make: Callable[..., HttpControlPlane], held: HeldJobs, server: Server
):
    held.hold(SPEC)
    server.drop = [JOB.job_id]

    registered = await make().register([JOB], runtime_available=True)

    assert registered.drop == (JOB.job_id,)
    assert held.jobs == ()


async def test_another_installation_is_noticed(make: Callable[..., HttpControlPlane]):
    with pytest.raises(InstallationChanged):
        await make(installation_id="another").register((), runtime_available=True)


async def test_a_dead_token_asks_for_registering_once(
    plane: HttpControlPlane, calls: ControlPlaneClient, server: Server
):
    server.answers["state"] = (401, {"code": "agent_credential_invalid", "detail": "no"})

    with pytest.raises(CredentialRefused):
        await plane.report(RUNNING)
    with pytest.raises(ControlPlaneUnavailable, match="not registered"):
        await plane.report(RUNNING)

    assert calls.needs_registration.is_set()
    await plane.register((), runtime_available=True)
    assert not calls.needs_registration.is_set()


async def test_a_late_refusal_of_the_old_token_spares_the_new_one(
    plane: HttpControlPlane, calls: ControlPlaneClient, server: Server
):
    old = calls._current_token()
    await plane.register((), runtime_available=True)

    calls._forget(old)

    assert calls._current_token() == "token-2"


async def test_a_worker_that_the_control_plane_does_not_know_registers(
    plane: HttpControlPlane, calls: ControlPlaneClient, server: Server
):
    server.answers["heartbeat"] = (404, {"code": "agent_not_found", "detail": "gone"})

    with pytest.raises(ControlPlaneUnavailable):
        await plane.heartbeat(HeartbeatReport(running_jobs=0, runtime_available=True, runs=()))

    assert calls.needs_registration.is_set()


async def test_private_runs_are_neither_told_nor_released(
    make: Callable[..., HttpControlPlane], server: Server
):
    plane = make(direct_runs=lambda: frozenset({"run-mine"}))
    await plane.register((), runtime_available=True)
    server.answers["heartbeat"] = (200, {"releaseRuns": ["run-mine", "run-over"]})

    beat = HeartbeatReport(running_jobs=1, runtime_available=False, runs=("run-mine", "run-over"))
    released = await plane.heartbeat(beat)

    assert released == ["run-over"]
    assert server.bodies("heartbeat") == [
        {"runningJobs": 1, "runtimeAvailable": False, "runs": ["run-over"]}
    ]


async def test_what_a_probe_answered_travels_with_the_renewal_of_its_job_alone(
    plane: HttpControlPlane, held: HeldJobs, server: Server
):
    probe = ProbeProgress(answer="port 8080: refused", tries=4, time_left_ms=56_000)

    await asyncio.to_thread(plane.renew, [JOB, OTHER_JOB], {}, {JOB: probe})

    told = [body.get("probe") for body in server.bodies("lease")]
    assert told == [{"answer": "port 8080: refused", "tries": 4, "timeLeftMs": 56_000}, None]


async def test_failing_loops_are_named_only_while_there_are_some(
    plane: HttpControlPlane, server: Server
):
    beat = HeartbeatReport(
        running_jobs=0, runtime_available=True, runs=(), failing_loops=("claims",)
    )

    await plane.heartbeat(beat)
    await plane.heartbeat(replace(beat, failing_loops=()))

    named, cleared = server.bodies("heartbeat")
    assert named["failingLoops"] == ["claims"]
    assert "failingLoops" not in cleared


async def test_a_claimed_spec_is_on_disk_before_it_is_begun(
    plane: HttpControlPlane, held: HeldJobs, server: Server
):
    server.answers["next"] = (200, SPEC)

    (claimed,) = await plane.claim(3)

    assert claimed == SPEC
    assert held.spec(JOB) == SPEC
    assert server.bodies("next") == [{"agentId": "edge-1", "waitSeconds": 25}]


async def test_steps_that_may_come_next_are_asked_for_and_not_stored(
    plane: HttpControlPlane, held: HeldJobs, server: Server
):
    server.answers["next"] = (200, {**SPEC, "ahead": [SPEC]})
    plane.starts_ahead = 2

    (claimed,) = await plane.claim(3)

    assert claimed["ahead"] == [SPEC]
    assert held.spec(JOB) == SPEC
    assert server.bodies("next") == [{"agentId": "edge-1", "waitSeconds": 25, "startAhead": 2}]


async def test_an_unreadable_claim_ends_no_worker(plane: HttpControlPlane, server: Server):
    server.answers["next"] = (200, {"what": "is this"})

    with pytest.raises(ControlPlaneUnavailable, match="cannot be stored"):
        await plane.claim(1)


async def test_no_work_is_no_error(plane: HttpControlPlane, server: Server):
    server.answers["next"] = (204, None)

    assert await plane.claim(1) == []


async def test_who_claims_no_more_waits_for_ever(plane: HttpControlPlane, server: Server):
    plane.stop_claims()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await plane.claim(1)

    assert not server.bodies("next")


async def test_orders_come_with_every_answer(plane: HttpControlPlane, server: Server):
    canceled = {"cancelRequested": True, "cancelReason": "canceled"}
    server.answers = dict.fromkeys(("state", "logs", "lease"), (200, canceled))

    told = await plane.report(RUNNING)
    sent = await plane.send(LogChunk(job=JOB, seq=0, position=1, lines=[line("x")]))
    (renewed,) = await asyncio.to_thread(plane.renew, [JOB])

    assert renewed is not None
    assert {told.cancel_reason, sent.cancel_reason, renewed.cancel_reason} == {"canceled"}


async def test_a_lost_lease_is_forgotten(plane: HttpControlPlane, held: HeldJobs, server: Server):
    held.hold(SPEC)
    server.answers["lease"] = (409, {"code": "stale_attempt", "detail": "not yours"})

    assert await asyncio.to_thread(plane.renew, [JOB]) == [None]
    assert held.jobs == ()


async def test_usage_goes_with_leases_and_completions(
    plane: HttpControlPlane, held: HeldJobs, server: Server
):
    held.hold(SPEC)
    measured = StepUsage(cpu_percent=12.5, memory_bytes=2**20, memory_peak_bytes=2**21)

    await asyncio.to_thread(plane.renew, [JOB], {JOB: measured})
    await asyncio.to_thread(plane.renew, [JOB], {JOB: StepUsage(cpu_percent=None, memory_bytes=1)})
    await asyncio.to_thread(plane.renew, [JOB])
    await plane.complete(Completion(job=JOB, status="succeeded", usage=measured, final_seq=0))

    wire = {"cpuPercent": 12.5, "memoryBytes": 2**20, "memoryPeakBytes": 2**21}
    told = [body.get("usage") for body in server.bodies("lease")]
    assert told == [wire, {"memoryBytes": 1}, None]
    assert server.bodies("complete")[0]["usage"] == wire


async def test_a_refused_usage_does_not_cost_the_lease(
    plane: HttpControlPlane, held: HeldJobs, server: Server
):
    """Invariant 37: nor the leases of the other jobs of its round."""
    held.hold(SPEC)
    measured = StepUsage(cpu_percent=None, memory_bytes=-1)
    refusal = (400, {"code": "validation_failed", "detail": "memoryBytes: at least 0"})
    server.refuse_when["lease"] = ("usage", refusal)

    (orders,) = await asyncio.to_thread(plane.renew, [JOB], {JOB: measured})

    assert orders is not None
    assert [("usage" in body) for body in server.bodies("lease")] == [True, False]


async def test_lines_are_told_as_the_protocol_takes_them(plane: HttpControlPlane, server: Server):
    lines = [line("a\0b"), LogLine(clock.now(), "warn", "output", "long", continued=True)]

    await plane.send(LogChunk(job=JOB, seq=4, position=6, lines=lines))

    (body,) = server.bodies("logs")
    assert (body["seq"], body["position"], body["attempt"]) == (4, 6, 1)
    assert [told["text"] for told in body["lines"]] == ["a\ufffdb", "long"]
    assert [told.get("continued") for told in body["lines"]] == [None, True]


async def test_a_completed_job_is_forgotten(
    plane: HttpControlPlane, held: HeldJobs, server: Server
):
    held.hold(SPEC)

    completion = Completion(
        job=JOB,
        status="failed",
        reason="exit_nonzero",
        error="exit code 3",
        exit_code=3,
        final_seq=12,
    )
    await plane.complete(completion)

    (body,) = server.bodies("complete")
    assert {key: body[key] for key in ("status", "reason", "exitCode", "finalSeq")} == {
        "status": "failed",
        "reason": "exit_nonzero",
        "exitCode": 3,
        "finalSeq": 12,
    }
    assert held.jobs == ()
    assert held.run_of(JOB.job_id) == "run-0123456789ab"


async def test_files_must_be_those_that_the_spec_names(
    plane: HttpControlPlane, held: HeldJobs, server: Server
):
    """Invariant 24."""
    digest = f"sha256:{hashlib.sha256(b'the files').hexdigest()}"
    held.hold(SPEC | {"content": {"digest": digest, "size": 9}})

    server.answers["content"] = (200, b"the files")
    assert await plane.content(JOB) == b"the files"
    server.answers["content"] = (200, b"other files")
    with pytest.raises(RequestRefused):
        await plane.content(JOB)
    other = f"sha256:{hashlib.sha256(b'other files').hexdigest()}"
    fitting = httpx.Response(200, content=b"other files", headers={"Digest": other})
    server.answers["content"] = (
        200,
        fitting,
    )  # the spec counts, not what the answer says of itself
    with pytest.raises(RequestRefused):
        await plane.content(JOB)


async def test_files_without_any_digest_are_refused(
    plane: HttpControlPlane, held: HeldJobs, server: Server
):
    """Invariant 24."""
    held.hold(SPEC)
    server.answers["content"] = (200, b"the files")
    with pytest.raises(RequestRefused):
        await plane.content(JOB)


async def test_artifacts_are_sent_as_they_are(plane: HttpControlPlane, server: Server):
    upload = ArtifactUpload(
        path="out/a b.xml",
        name="",
        format="junit",
        on="always",
        media_type="text/xml",
        body=b"<a/>",
    )

    await plane.store(JOB, upload)

    assert server.last.content == b"<a/>"
    assert server.last.headers["Content-Type"] == "text/xml"
    assert dict(server.last.url.params) == {
        "attempt": "1",
        "path": "out/a b.xml",
        "format": "junit",
        "on": "always",
    }


@pytest.mark.parametrize(
    ("status", "problem", "error"),
    [
        (409, {"code": "stale_attempt"}, StaleJob),
        (409, {"code": "stale_attempt", "detail": None}, StaleJob),
        (404, {"code": "job_not_found"}, StaleJob),
        (409, {"code": "log_gap", "nextSeq": 5}, LinesMissing),
        (400, {"code": "validation_failed"}, RequestRefused),
        (413, {"code": "payload_too_large"}, RequestRefused),
        (429, {"code": "rate_limited"}, ControlPlaneUnavailable),
        (503, {"code": "datastore_unavailable"}, ControlPlaneUnavailable),
        (500, {"code": "internal_error"}, ControlPlaneUnavailable),
        (502, b"<html>a proxy</html>", ControlPlaneUnavailable),
        (502, b'{"detail": "\xe9"}', ControlPlaneUnavailable),
        (404, b"<html>another server</html>", ControlPlaneUnavailable),
        (302, None, ControlPlaneUnavailable),
        (200, b"<html>a captive portal</html>", ControlPlaneUnavailable),
        (200, b'{"jobId": "\xe9", "cancelReason": "\xe9"}', ControlPlaneUnavailable),
    ],
)
async def test_every_answer_is_one_of_the_ports_errors(
    plane: HttpControlPlane, server: Server, status: int, problem: object, error: type[Exception]
):
    server.answers["state"] = (status, problem)

    with pytest.raises(error) as raised:
        await plane.report(RUNNING)

    assert type(raised.value) is error
    assert getattr(raised.value, "next_seq", 5) == 5


async def test_a_broken_connection_is_a_control_plane_that_is_away(plane, server, monkeypatch):
    def broken(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(plane._client._client, "_transport", httpx.MockTransport(broken))
    monkeypatch.setattr(plane._client._blocking, "_transport", httpx.MockTransport(broken))

    with pytest.raises(ControlPlaneUnavailable, match="ConnectError"):
        await plane.report(RUNNING)
    with pytest.raises(ControlPlaneUnavailable, match="ConnectError"):
        await asyncio.to_thread(plane.renew, [JOB])


async def test_complaints_hold_no_secret(make, server: Server, caplog):
    """Invariant 19."""
    server.answers["register"] = (401, {"code": "agent_credential_invalid", "detail": "no"})

    for _try in range(3):
        with pytest.raises(CredentialRefused):
            await make().register((), runtime_available=True)

    assert "refuses this AGENT_SHARED_SECRET" in caplog.text
    assert SECRET not in caplog.text


async def test_the_orders_of_a_run_are_asked_for_often(
    plane: HttpControlPlane, held: HeldJobs, server: Server, monkeypatch
):
    """One question a run, whatever it has here; a service's, where there is one."""
    monkeypatch.setattr("worker.control_plane.held_jobs.StopPoller.EACH_S", 0.02)
    service = steps.claim("run-0123456789ab", "api")
    service["node"]["kind"] = "service"
    for spec in (SPEC, service, OTHER):
        held.hold(spec)
    woken = asyncio.Event()
    loop = asyncio.get_running_loop()
    server.answers["lease"] = (200, {"cancelRequested": True, "cancelReason": "teardown"})

    def wake() -> None:
        loop.call_soon_threadsafe(woken.set)

    plane.on_directive(wake)
    async with asyncio.timeout(5):
        await woken.wait()
    await plane.close()

    asked = {
        request.url.path.split("/")[-2] for request in server.asked if "lease" in str(request.url)
    }
    assert asked == {service["jobId"]}


def test_specs_on_disk_are_encrypted_and_ours_alone(tmp_path):
    """Invariant 19: a spec holds the values of secrets."""
    spec = SPEC | {"env": {"TOKEN": "a-very-secret-value"}, "secretKeys": ["TOKEN"]}
    HeldJobs(tmp_path, SECRET).hold(spec)

    (path,) = tmp_path.iterdir()
    assert b"a-very-secret-value" not in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert HeldJobs(tmp_path, SECRET).spec(JOB) == spec
    assert HeldJobs(tmp_path, "another-shared-secret").jobs == ()
    assert json.dumps([each.name for each in tmp_path.iterdir()]) == "[]"
