"""A worker that claims a step and then is silent: it speaks the agent protocol by hand."""

from __future__ import annotations

import uuid
from typing import Any

import httpx

from tests.support.cluster import SHARED_SECRET


class LateWorker:
    """`with LateWorker(url, name) as worker:` registers it for the backend `edge`."""

    def __init__(self, url: str, name: str) -> None:
        self._name = name
        self._client = httpx.Client(base_url=f"{url}/api/v1", timeout=30)
        self._spec: dict[str, Any] = {}

    def __enter__(self) -> LateWorker:
        body = {"agentId": self._name, "backends": ["edge"], "incarnation": uuid.uuid4().hex}
        secret = {"Authorization": f"Bearer {SHARED_SECRET}"}
        answer = self._client.post("/agents/register", json=body, headers=secret)
        assert answer.status_code == 201, answer.text
        self._client.headers["Authorization"] = f"Bearer {answer.json()['agentToken']}"
        return self

    def __exit__(self, *_exception: object) -> None:
        self._client.delete(f"/agents/{self._name}")
        self._client.close()

    def claim(self) -> None:
        body = {"agentId": self._name, "waitSeconds": 20}
        answer = self._client.post("/agent-control/claims/next", json=body)
        assert answer.status_code == 200, answer.text
        self._spec = answer.json()

    def report(self) -> dict[str, int]:
        """That the container runs, and a first line."""
        answers = {"state": self._say("state"), "logs": self._say("logs")}
        return {name: answer.status_code for name, answer in answers.items()}

    def late_reports(self) -> dict[str, tuple[int, str]]:
        """Everything a supervisor can say of the attempt it once held; status and problem code."""
        answers = {name: self._say(name) for name in ("lease", "state", "logs", "complete")}
        attempt = {"attempt": str(self._spec["attempt"])}
        answers["content"] = self._client.get(self._path("content"), params=attempt)
        answers["artifacts"] = self._client.post(
            self._path("artifacts"), params=attempt | {"path": "late.txt"}, content=b"late"
        )
        return {name: (answer.status_code, _code(answer)) for name, answer in answers.items()}

    def _say(self, what: str) -> httpx.Response:
        line = {"level": "info", "kind": "output", "text": "1/1 said too late"}
        details: dict[str, dict[str, Any]] = {
            "lease": {},
            "state": {"state": "running"},
            "logs": {"seq": 0, "position": 1, "lines": [line]},
            "complete": {"status": "succeeded", "exitCode": 0},
        }
        body = {"agentId": self._name, "attempt": self._spec["attempt"]} | details[what]
        return self._client.post(self._path(what), json=body)

    def _path(self, what: str) -> str:
        return f"/agent-control/jobs/{self._spec['jobId']}/{what}"


def _code(answer: httpx.Response) -> str:
    return str(answer.json().get("code", "")) if answer.content else ""
