from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from worker.control_plane.client import ControlPlaneClient
from worker.control_plane.held_jobs import HeldJobs
from worker.control_plane.http import HttpControlPlane, WorkerRegistration

SECRET = "the-shared-secret-of-these-tests"
REGISTRATION = WorkerRegistration(
    agent_id="edge-1",
    incarnation="first",
    name="Edge one",
    host_url="",
    backends=("edge",),
    capabilities=("service", "task", "test"),
    labels={"zone": "eu"},
    version="1",
)


class Server:
    """The agent routes, answering what a test puts into `answers`: path's end → (status, body).

    `refuse_when`: path's end → (key, answer) for bodies with that key.
    """

    def __init__(self) -> None:
        self.asked: list[httpx.Request] = []
        self.tokens = 0
        self.answers: dict[str, tuple[int, Any]] = {}
        self.refuse_when: dict[str, tuple[str, tuple[int, Any]]] = {}
        self.keep: list[dict[str, Any]] = []
        self.drop: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        what = request.url.path.rsplit("/", 1)[-1]
        key, refusal = self.refuse_when.get(what, ("", (0, None)))
        if key and key in json.loads(request.content):
            return answer(*refusal)
        if what in self.answers:
            return answer(*self.answers[what])
        if what == "register":
            self.tokens += 1
            return answer(201, self._register())
        return answer(200, {"status": "recorded", "nextSeq": 0, "releaseRuns": []})

    def _register(self) -> dict[str, Any]:
        return {
            "agentToken": f"token-{self.tokens}",
            "installationId": "installation",
            "heartbeatIntervalMs": 500,
            "keepJobs": self.keep,
            "dropJobs": self.drop,
        }

    def bodies(self, what: str) -> list[dict[str, Any]]:
        asked = [request for request in self.asked if request.url.path.endswith(what)]
        return [json.loads(request.content) for request in asked]

    @property
    def last(self) -> httpx.Request:
        return self.asked[-1]


def answer(status: int, body: Any) -> httpx.Response:
    if isinstance(body, httpx.Response):
        return body
    if isinstance(body, bytes):
        return httpx.Response(status, content=body)
    problem = "application/problem+json" if status >= 400 else "application/json"
    content = b"" if body is None else json.dumps(body).encode()
    return httpx.Response(status, content=content, headers={"Content-Type": problem})


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def held(tmp_path: Path) -> HeldJobs:
    return HeldJobs(tmp_path / "held", SECRET)


@pytest.fixture
async def calls(server: Server) -> AsyncIterator[ControlPlaneClient]:
    transport = httpx.MockTransport(server)
    calls = ControlPlaneClient(
        "http://partita.test", SECRET, transport=transport, blocking_transport=transport
    )
    yield calls
    await calls.close()


@pytest.fixture
def make(calls: ControlPlaneClient, held: HeldJobs) -> Callable[..., HttpControlPlane]:
    def make(**options: Any) -> HttpControlPlane:
        return HttpControlPlane(calls, REGISTRATION, held, **options)

    return make


@pytest.fixture
async def plane(make: Callable[..., HttpControlPlane]) -> HttpControlPlane:
    """Registered."""
    plane = make()
    await plane.register((), runtime_available=True)
    return plane
