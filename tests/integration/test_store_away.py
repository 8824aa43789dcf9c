"""The store stops, freezes or stays locked: every route says so at once, and serves again after.

Every route of routes.txt is asked of a real server with a credential that this process has not
seen before, so that nothing is answered from memory.
"""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import psutil
import pytest

from apps.health.services import KEPT_S
from tests.integration.test_every_route import QUERIES, ROWS
from tests.support.cluster import ADMIN, SHARED_SECRET, Cluster, is_ready
from tests.support.processes import until
from tests.support.timing import slowness

pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.slow, pytest.mark.timed]

LIMIT_S: Final = 2.0  # on a machine like that of the budgets
AT_ONCE: Final = 10
RUN: Final = "run-0123456789ab"
PERSON: Final = {"fullName": "Eve", "email": "eve@example.org", "password": "Correct-Horse-1"}
JOB: Final[dict[str, Any]] = {"agentId": "edge-1", "attempt": 1}
REPORTS: Final[dict[str, dict[str, Any]]] = {
    "lease": JOB,
    "state": JOB | {"state": "running"},
    "logs": JOB | {"seq": 0, "lines": [{"text": "hello"}]},
    "complete": JOB | {"status": "succeeded"},
}
BODIES: Final[dict[str, dict[str, Any]]] = {
    "POST /api/v1/auth/sign-up": PERSON,
    "POST /api/v1/auth/sign-in": {"email": "ada@example.org", "password": "wrong"},
    "POST /api/v1/auth/refresh": {"refreshToken": "x" * 43},
    "POST /api/v1/auth/oidc/exchange": {"code": "x"},
    "POST /api/v1/auth/forgot-password": {"email": "ada@example.org"},
    "POST /api/v1/auth/reset-password": {"token": "x", "password": "Correct-Horse-1"},
    "POST /api/v1/executions": {"suiteId": "hello"},
    "POST /api/v1/agents/register": {"agentId": "edge-9"},
    "POST /api/v1/agent-control/claims/next": {"agentId": "edge-1"},
    "POST /api/v1/auth/device": {"client": "partita on a laptop"},
    **{f"POST /api/v1/agent-control/jobs/{{job}}/{what}": body for what, body in REPORTS.items()},
}
# What is answered from memory and files alone; the rest needs the store, if only for the session.
NEEDS_NO_STORE: Final = {
    "GET /healthz": 200,
    "GET /api/v1/system/healthz": 200,
    "GET /static/{file}": 404,
    "* /mocks/{path}": 501,
    "* /internal/mock-data/{path}": 501,
    "GET /api/v1/auth/config": 200,
    "GET /api/v1/auth/sso/providers": 200,
    "GET /api/v1/auth/oidc/login": 404,
    "GET /api/v1/auth/oidc/callback": 404,
    "GET /accounts/{provider}/login/": 404,
    "GET /accounts/{provider}/login/callback/": 404,
    "GET /sign-in": 200,
    "GET /sign-up": 200,
    "GET /forgot-password": 200,
    "GET /reset-password": 200,
    "POST /reset-password": 400,  # the form is looked at first
    "GET /auth/callback": 200,
}
# Files, too; `make docs` may have been run here.
DOCUMENTATION: Final = {
    "GET /docs": {302},
    "GET /docs/": {200, 404},
    "GET /docs/{page}": {404},
}
READINESS: Final = re.compile(r"GET (/api/v1/system)?/readyz(/{subsystem})?")


@dataclass
class Visitor:
    """Who asks: an administrator by token and by session, an agent, who knows the secret."""

    url: str
    token: str
    agent_token: str
    cookies: dict[str, str]
    answers: dict[str, tuple[httpx.Response, float]] = field(default_factory=dict)

    async def ask(self, client: httpx.AsyncClient, row: str, gate: asyncio.Semaphore) -> None:
        method, path = row.split()
        path = path.replace("{subsystem}", "datastore").replace("{suite}", "hello")
        path = path.replace("{agent}", "edge-1").replace("{run}", RUN).replace("{over}", RUN)
        target = self.url + re.sub(r"{\w+}", "some", path) + QUERIES.get(row, "")
        request = client.build_request(
            "GET" if method == "*" else method, target, headers=self._headers(path)
        )
        if row in BODIES:
            request = client.build_request(
                method, target, headers=self._headers(path), json=BODIES[row]
            )
        elif not path.startswith("/api") and method == "POST":
            form = {**PERSON, "csrfmiddlewaretoken": self.cookies["csrftoken"]}
            request = client.build_request(method, target, headers=self._headers(path), data=form)
        async with gate:
            started = time.monotonic()
            answer = await client.send(request, stream=True)
            if "text/event-stream" not in answer.headers.get("content-type", ""):
                await answer.aread()
            self.answers[row] = answer, time.monotonic() - started
            await answer.aclose()

    def _headers(self, path: str) -> dict[str, str]:
        if path == "/api/v1/agents/register":
            return {"Authorization": f"Bearer {SHARED_SECRET}"}
        if "/agent-control/" in path or path.endswith("/heartbeat"):
            return {"Authorization": f"Bearer {self.agent_token}"}
        if path.startswith("/api/"):
            return {"Authorization": f"Bearer {self.token}"}
        return {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}


def ask_everything(visitor: Visitor) -> dict[str, tuple[httpx.Response, float]]:
    async def ask_all() -> None:
        gate = asyncio.Semaphore(AT_ONCE)
        async with httpx.AsyncClient(timeout=30) as client:
            await asyncio.gather(*(visitor.ask(client, row, gate) for row in ROWS))

    asyncio.run(ask_all())
    return visitor.answers


def visitor_of(cluster: Cluster) -> Visitor:
    """A new one: the server has not seen its credentials."""
    with httpx.Client(base_url=cluster.url, timeout=30) as client:
        signed_in = client.post("/api/v1/auth/sign-in", json=ADMIN)
        assert signed_in.status_code == 200, signed_in.text
        token = signed_in.json()["token"]
        agent = client.post(
            "/api/v1/agents/register",
            json={"agentId": "edge-1"},
            headers={"Authorization": f"Bearer {SHARED_SECRET}"},
        )
        client.get("/sign-in")
        form = {**ADMIN, "csrfmiddlewaretoken": client.cookies["csrftoken"]}
        assert client.post("/sign-in", data=form).status_code == 302
        time.sleep(KEPT_S)  # readiness repeats what it found before the store went away
        return Visitor(cluster.url, token, agent.json()["agentToken"], dict(client.cookies))


def mistakes(answers: dict[str, tuple[httpx.Response, float]], limit_s: float) -> list[str]:
    found = {row: mistake(row, *answer, limit_s) for row, answer in answers.items()}
    return [f"{row}: {what}" for row, what in found.items() if what]


def mistake(row: str, answer: httpx.Response, seconds: float, limit_s: float) -> str:
    """What is wrong with an answer given while the store is away."""
    if seconds > limit_s:
        return f"after {seconds:.2f} s"
    if READINESS.fullmatch(row):
        return "" if answer.status_code == 503 else f"says {answer.status_code}: {answer.text}"
    if expected := DOCUMENTATION.get(row) or {NEEDS_NO_STORE.get(row)} - {None}:
        return "" if answer.status_code in expected else f"{answer.status_code}"
    if answer.status_code != 503 or not says_away(answer):
        return f"{answer.status_code} {answer.headers.get('content-type')}"
    return ""


def says_away(answer: httpx.Response) -> bool:
    return (
        answer.headers.get("content-type") == "application/problem+json"
        and answer.json()["code"] in ("datastore_unavailable", "mail_unavailable")
        and int(answer.headers["Retry-After"]) > 0
    )


def is_broken(answer: httpx.Response) -> bool:
    """A server error that does not say that the store is away, nor that it is not built yet."""
    return answer.status_code >= 500 and answer.status_code != 501 and not says_away(answer)


@contextmanager
def stopped(cluster: Cluster) -> Iterator[None]:
    cluster.processes["postgres"].kill(signal.SIGINT)
    yield
    cluster.processes["postgres"].start()


@contextmanager
def frozen(cluster: Cluster) -> Iterator[None]:
    """The server and its sessions are there and say nothing."""
    server = cluster.processes["postgres"]
    assert server._process
    main = psutil.Process(server._process.pid)
    every = [main, *main.children(recursive=True)]
    for process in every:
        process.suspend()
    yield
    for process in reversed(every):
        process.resume()


@pytest.fixture(scope="module")
def on_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("away") / "cluster"
    with Cluster(folder, parts=["web"], environment={"REDIS_ADDR": ""}) as cluster:
        yield cluster


@pytest.mark.parametrize("trouble", [stopped, frozen])
def test_every_route_says_within_two_seconds_that_the_store_is_away(
    on_postgres: Cluster, trouble: Callable[[Cluster], Any]
):
    visitor = visitor_of(on_postgres)

    with trouble(on_postgres):
        answers = ask_everything(visitor)

    assert mistakes(answers, LIMIT_S * slowness()) == []
    assert "Traceback" not in on_postgres.processes["web"].text()
    until(lambda: is_ready(on_postgres.url), within_s=30, what="it is ready again")
    again = httpx.get(
        f"{on_postgres.url}/api/v1/executions",
        headers={"Authorization": f"Bearer {visitor.token}"},
    )
    assert again.status_code == 200
