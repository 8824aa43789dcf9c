"""The routes of a worker (reference: control-plane 15.3), without a socket."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from kernel import background
from tests.apps.workers_http.conftest import SECRET
from tests.support import steps
from tests.support.broken import Unforeseen
from worker.application import WorkerApplication
from worker.direct_runs import DirectRunRecord
from worker.domain.runtime import RemovedResources, RuntimeUnavailable

DERIVED = hmac.new(SECRET.encode(), b"edge-1", hashlib.sha256).hexdigest()
OF_ANOTHER = hmac.new(SECRET.encode(), b"edge-2", hashlib.sha256).hexdigest()
OF_ANOTHER_SECRET = hmac.new(SECRET[:-1].encode(), b"edge-1", hashlib.sha256).hexdigest()
JOB = "job_" + "x" * 22
ROUTES = [
    ("GET", "/api/v1/agent/info"),
    ("POST", "/api/v1/agent/run"),
    ("POST", f"/api/v1/agent/jobs/{JOB}/cancel"),
    ("POST", f"/api/v1/agent/jobs/{JOB}/cleanup"),
    ("GET", "/api/v1/nowhere"),
]


class FakeWorker:
    agent_id = "edge-1"

    def __init__(self, secret: str = SECRET) -> None:
        self.secret = secret
        self.files: bytes | None = b"nothing was started"
        self.away = False

    def info(self) -> dict[str, Any]:
        return {"agentId": self.agent_id, "status": "ready"}

    async def start(self, spec: Any, files: bytes | None) -> AsyncGenerator[DirectRunRecord]:
        self.files = files

        async def records() -> AsyncGenerator[DirectRunRecord]:
            yield {"type": "state", "jobId": JOB, "attempt": 1, "state": "running"}
            yield {"type": "done", "jobId": JOB, "attempt": 1, "status": "succeeded"}

        return records()

    def cancel(self, job_id: str) -> bool:
        return job_id == JOB

    async def cleanup(self, job_id: str) -> RemovedResources | None:
        if self.away:
            raise RuntimeUnavailable("the engine does not answer")
        return RemovedResources(containers=1, networks=2, volumes=3) if job_id == JOB else None


async def ask(
    method: str, path: str, *, worker: FakeWorker | None = None, token: str = SECRET, **body: Any
) -> httpx.Response:
    transport = httpx.ASGITransport(WorkerApplication(worker or FakeWorker()))
    headers = [(b"Authorization", f"Bearer {token}".encode())] if token else []
    async with httpx.AsyncClient(transport=transport, base_url="http://worker") as client:
        return await client.request(method, path, headers=headers, **body)


def code(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["Content-Type"] == "application/problem+json"
    return answer.status_code, answer.json()["code"]


def order(**changes: Any) -> dict[str, Any]:
    return steps.claim("run-0123456789ab", "one") | {"jobId": JOB} | changes


async def test_health_needs_no_credential():
    answer = await ask("GET", "/healthz", token="", worker=FakeWorker(secret=""))

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "token",
    ["", "wrong", DERIVED[:-1], DERIVED.upper(), SECRET + "x", "ä", OF_ANOTHER, OF_ANOTHER_SECRET],
)
async def test_nothing_is_told_without_a_credential(method: str, path: str, token: str):
    """Invariant 8."""
    answer = await ask(method, path, token=token)

    assert code(answer) == (401, "agent_credential_invalid")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("token", ["", SECRET, hmac.digest(b"", b"edge-1", "sha256").hex()])
async def test_without_a_shared_secret_nobody_is_answered(method: str, path: str, token: str):
    """Invariant 8."""
    answer = await ask(method, path, token=token, worker=FakeWorker(secret=""))

    assert code(answer) == (503, "agent_secret_unset")


@pytest.mark.parametrize("token", [SECRET, DERIVED])
async def test_the_secret_and_what_it_makes_of_the_name_open_the_worker(token: str):
    answer = await ask("GET", "/api/v1/agent/info", token=token)

    assert answer.json() == {"agentId": "edge-1", "status": "ready"}


async def test_jobs_end_by_name():
    assert (await ask("POST", ROUTES[2][1])).json() == {"status": "canceled"}
    assert (await ask("POST", ROUTES[3][1])).json() == {
        "status": "cleaned",
        "removedContainers": 1,
        "removedNetworks": 2,
        "removedVolumes": 3,
    }


@pytest.mark.parametrize("how", ["cancel", "cleanup"])
async def test_unknown_jobs_are_not_found(how: str):
    answer = await ask("POST", f"/api/v1/agent/jobs/job_unknown/{how}")

    assert code(answer) == (404, "job_not_found")


async def test_a_runtime_that_is_away_is_said_so():
    worker = FakeWorker()
    worker.away = True

    answer = await ask("POST", ROUTES[3][1], worker=worker)

    assert code(answer) == (503, "container_runtime_unavailable")


async def test_a_run_is_told_line_by_line():
    worker = FakeWorker()

    answer = await ask("POST", "/api/v1/agent/run", worker=worker, json=order(contentBase64="YWI="))

    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert [line[:9] for line in answer.text.splitlines()] == ['{"type": ', '{"type": ']
    assert worker.files == b"ab"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"content": b"{"}, "malformed_json"),
        ({"json": []}, "validation_failed"),
        ({"json": {}}, "validation_failed"),
        ({"json": order(contentBase64="!")}, "validation_failed"),
        ({"json": order(jobId="../../etc")}, "validation_failed"),
        ({"json": order(executionId="../../etc")}, "validation_failed"),
        ({"json": order(node={"id": "a", "name": "a", "kind": "task", "file": "a.sh"})},
         "validation_failed"),
        ({"content": b" " * (10 * 2**20 + 1)}, "payload_too_large"),
        ({"content": b"{}", "headers": {"Content-Type": "text/plain"}}, "unsupported_media_type"),
    ],
)  # fmt: skip
async def test_a_bad_order_is_refused(body: dict[str, Any], problem: str):
    """Invariant 33."""
    headers = {"Content-Type": "application/json"} | body.pop("headers", {})
    transport = httpx.ASGITransport(WorkerApplication(FakeWorker()))
    headers["Authorization"] = f"Bearer {SECRET}"
    async with httpx.AsyncClient(transport=transport, base_url="http://worker") as client:
        answer = await client.post("/api/v1/agent/run", headers=headers, **body)

    assert code(answer)[1] == problem


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/healthz", "GET, HEAD"),
        ("DELETE", "/api/v1/agent/info", "GET, HEAD"),
        ("GET", "/api/v1/agent/run", "POST"),
        ("GET", f"/api/v1/agent/jobs/{JOB}/cancel", "POST"),
    ],
)
async def test_other_methods_are_not_allowed(method: str, path: str, allowed: str):
    answer = await ask(method, path)

    assert code(answer) == (405, "method_not_allowed")
    assert answer.headers["Allow"] == allowed


async def test_elsewhere_there_is_nothing():
    assert code(await ask("GET", "/api/v1/nowhere")) == (404, "not_found")


@pytest.mark.usefixtures("quick_loops")
async def test_readiness_names_a_loop_that_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(background, "FIRST_PAUSE_S", 60.0)

    async def body() -> None:
        raise Unforeseen

    task = asyncio.create_task(background.keep_running("test-loop", body))
    await asyncio.sleep(0.05)
    failing = await ask("GET", "/readyz", token="", worker=FakeWorker(secret=""))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    ready = await ask("GET", "/readyz", token="", worker=FakeWorker(secret=""))

    assert (failing.status_code, failing.json()["status"]) == (503, "not_ready")
    assert failing.json()["components"][0]["detail"] == "failed: test-loop"
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
