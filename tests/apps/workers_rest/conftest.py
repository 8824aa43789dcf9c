from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from apps.accounts import selectors as accounts_memory
from apps.accounts.models import User
from apps.accounts.services.administrators import ensure_seed_admin
from apps.accounts.services.sign_up import sign_up
from apps.accounts.services.token_pairs import issue_tokens

SECRET = "the-shared-secret-of-these-tests"
UNKNOWN_JOB = "job_" + "x" * 22
ONE_BACKEND = "agents:\n  - {agentId: edge, name: Edge, type: remote-agent, routingTags: []}\n"


@pytest.fixture(autouse=True)
def _control_plane(transactional_db, settings, tmp_path) -> None:
    """Real transactions, one backend `edge` for workers, a shared secret."""
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    settings.PLATFORM_SETTINGS_FILE.write_text(ONE_BACKEND)
    settings.SUITES_DIR = tmp_path / "suites"
    settings.AGENT_SHARED_SECRET = SECRET
    accounts_memory._cache.clear()


@dataclass
class Caller:
    """Somebody with a bearer token, or without one."""

    token: str = ""
    client: Client = field(default_factory=Client)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        return self.client.generic(
            method,
            f"/api/v1/{path}",
            b"" if body is None else json.dumps(body).encode(),
            content_type="application/json",
            headers=self.bearer | headers,
        )

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def post(self, path: str, body: Any = None) -> Any:
        return self.call("POST", path, {} if body is None else body)

    def delete(self, path: str) -> Any:
        return self.call("DELETE", path)

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


@dataclass
class RemoteWorker(Caller):
    """A worker that speaks the agent protocol; `jobs`: step id → claimed spec."""

    agent_id: str = "edge-1"
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def register(self, **facts: Any) -> dict[str, Any]:
        """Also keeps the token for what follows."""
        body = {"agentId": self.agent_id, "backends": ["edge"], "incarnation": uuid.uuid4().hex}
        answer = Caller(SECRET).post("agents/register", body | facts)
        assert answer.status_code == 201, answer.content
        self.token = answer.json()["agentToken"]
        return dict(answer.json())

    def claim(self, wait_s: int = 0) -> dict[str, Any] | None:
        answer = self.post(
            "agent-control/claims/next", {"agentId": self.agent_id, "waitSeconds": wait_s}
        )
        assert answer.status_code in (200, 204), answer.content
        if answer.status_code == 204:
            return None
        spec = dict(answer.json())
        self.jobs[spec["node"]["id"]] = spec
        return spec

    def claim_all(self) -> list[str]:
        ids = []
        while spec := self.claim():
            ids.append(spec["node"]["id"])
        return ids

    def report(self, step: str, what: str, **facts: Any) -> Any:
        """`what`: lease, state, logs or complete."""
        job = self.jobs[step]
        body = {"agentId": self.agent_id, "attempt": job["attempt"]}
        return self.post(f"agent-control/jobs/{job['jobId']}/{what}", body | facts)

    def log(self, step: str, *texts: str, seq: int = 0) -> Any:
        lines = [{"level": "info", "kind": "output", "text": text} for text in texts]
        return self.report(step, "logs", seq=seq, position=seq + len(texts), lines=lines)

    def complete(self, step: str, status: str = "succeeded", **facts: Any) -> Any:
        return self.report(step, "complete", status=status, **facts)

    def content(self, step: str, **query: Any) -> Any:
        job = self.jobs[step]
        asked = {"attempt": job["attempt"]} | query
        return self.client.get(
            f"/api/v1/agent-control/jobs/{job['jobId']}/content", asked, headers=self.bearer
        )

    def upload(self, step: str, body: bytes, media_type: str = "text/plain", **query: Any) -> Any:
        job = self.jobs[step]
        asked = {"attempt": job["attempt"], "path": "out/report.txt"} | query
        return self.client.post(
            f"/api/v1/agent-control/jobs/{job['jobId']}/artifacts",
            body,
            content_type=media_type,
            query_params={name: value for name, value in asked.items() if value is not None},
            headers=self.bearer,
        )


@pytest.fixture
def worker() -> RemoteWorker:
    registered = RemoteWorker()
    registered.register()
    return registered


@pytest.fixture
def other() -> RemoteWorker:
    registered = RemoteWorker(agent_id="edge-2")
    registered.register()
    return registered


def signed_in(user: User) -> Caller:
    return Caller(issue_tokens(user).token)


@pytest.fixture
def member() -> Caller:
    return signed_in(sign_up(full_name="Ada", email="ada@example.org", password="Correct-Horse-1"))


@pytest.fixture
def admin() -> Caller:
    ensure_seed_admin("root@example.org", "swordfish")
    return signed_in(User.objects.get(email="root@example.org"))


class InThread(threading.Thread):
    """`work` on a thread of its own; `result()` waits for it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._result: Any = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            self._error = error
        finally:
            connection.close()

    def result(self, within_s: float = 30) -> Any:
        self.join(within_s)
        assert not self.is_alive(), "still at work"
        if self._error:
            raise self._error
        return self._result
