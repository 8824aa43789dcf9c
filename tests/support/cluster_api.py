"""A scripted API server for the runtime kubernetes: objects by kind, refusals in a given order.

Programs in containers do not run here: tests replace `ClusterClient.run`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from tests.support import steps
from worker.domain.cluster_options import ClusterOptions
from worker.domain.launch import LaunchRules, launch_of
from worker.domain.runtime import CONTAINER_FOLDERS, Launch, RuntimeOptions
from worker.domain.step_spec import parse_step_spec
from worker.runtimes.kubernetes.runtime import KubernetesRuntime

Object = dict[str, Any]
RUN_ID: Final = "run-0123456789ab"
RUNNING: Final[Object] = {
    "phase": "Running",
    "podIP": "10.0.0.9",
    "containerStatuses": [
        {"name": "step", "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}
    ],
}


def refusal(status: int, reason: str, message: str) -> httpx.Response:
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message}
    return httpx.Response(status, json={**body, "code": status})


@dataclass
class Silence(httpx.AsyncByteStream):
    """A stream that says nothing until the client has waited for `after_s`, then the lines."""

    after_s: float
    lines: Sequence[bytes] = ()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for line in self.lines:
            yield line
        await asyncio.sleep(self.after_s)
        raise httpx.ReadTimeout("")


@dataclass
class ClusterApi:
    """`refusals`: answers given instead of the next requests of a method and kind.

    `status`: of pods that are created. `page`: objects in an answer. `logs`: one answer each.
    """

    status: Object = field(default_factory=lambda: dict(RUNNING))
    page: int = 500
    silence_s: float = 0.05
    objects: dict[str, dict[str, Object]] = field(default_factory=dict)
    refusals: list[tuple[str, str, httpx.Response]] = field(default_factory=list)
    logs: list[httpx.Response] = field(default_factory=list)
    requests: list[httpx.Request] = field(default_factory=list)
    _number: int = 0

    def runtime(self, folder: Path, *, claim: str = "", **options: Any) -> KubernetesRuntime:
        cluster = ClusterOptions(server="http://cluster", namespace="apps", claim=claim)
        return KubernetesRuntime(
            RuntimeOptions(state_dir=folder, installation_id=steps.INSTALLATION, cluster=cluster),
            transport=httpx.MockTransport(self.respond),
            **options,
        )

    def refuse(self, method: str, kind: str, answer: httpx.Response) -> None:
        self.refusals.append((method, kind, answer))

    def names(self, kind: str) -> list[str]:
        return sorted(self.objects.get(kind, {}))

    def store(self, kind: str, made: Object) -> Object:
        self._number += 1
        about = {"uid": f"uid-{self._number}", **made["metadata"]}
        made = {**made, "metadata": {**about, "resourceVersion": str(self._number)}}
        self.objects.setdefault(kind, {})[made["metadata"]["name"]] = made
        return made

    async def respond(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        kind, _, rest = request.url.path.removeprefix("/api/v1/namespaces/apps/").partition("/")
        for index, (method, refused, answer) in enumerate(self.refusals):
            if (method, refused) == (request.method, kind):
                del self.refusals[index]
                return answer
        if rest.endswith("/log"):
            return self.logs.pop(0)
        if rest.endswith("/ephemeralcontainers"):
            return self._add_containers(rest.partition("/")[0], json.loads(request.content))
        if request.method == "POST":
            return self._create(kind, json.loads(request.content))
        return self._named(request, kind, rest) if rest else self._list(request, kind)

    def _create(self, kind: str, body: Object) -> httpx.Response:
        name = body["metadata"]["name"]
        if name in self.objects.get(kind, {}):
            return refusal(409, "AlreadyExists", f'{kind} "{name}" already exists')
        if kind == "pods":
            body["status"] = self.status
        return httpx.Response(201, json=self.store(kind, body))

    def _add_containers(self, name: str, change: Object) -> httpx.Response:
        pod = self.objects["pods"][name]
        pod["spec"] |= change["spec"]
        return httpx.Response(200, json=self.store("pods", pod))

    def _named(self, request: httpx.Request, kind: str, name: str) -> httpx.Response:
        found = self.objects.get(kind, {}).get(name)
        if found is None:
            return refusal(404, "NotFound", f'{kind} "{name}" not found')
        if request.method == "DELETE":
            wanted = json.loads(request.content).get("preconditions", {}).get("uid")
            if wanted not in (None, found["metadata"]["uid"]):
                return refusal(409, "Conflict", "the UID in the precondition does not match")
            del self.objects[kind][name]
        return httpx.Response(200, json=found)

    def _list(self, request: httpx.Request, kind: str) -> httpx.Response:
        query = request.url.params
        if query.get("watch"):
            return httpx.Response(200, stream=Silence(self.silence_s))
        pairs = [each.partition("=") for each in query.get("labelSelector", "").split(",") if each]
        found = [
            each
            for each in self.objects.get(kind, {}).values()
            if all(each["metadata"].get("labels", {}).get(key) == value for key, _, value in pairs)
        ]
        start = int(query.get("continue", "0"))
        end = start + self.page
        about = {"resourceVersion": str(self._number)}
        if end < len(found):
            about["continue"] = str(end)
        items: list[Object] | None = found[start:end]
        if "PartialObjectMetadataList" in request.headers["Accept"]:
            items = [{"metadata": each["metadata"]} for each in found[start:end]] or None
        return httpx.Response(200, json={"metadata": about, "items": items})


async def _no_files() -> bytes:
    return b""


def launch(node_id: str = "api", **changes: Any) -> Launch:
    changes.setdefault("node", {"command": ["true"]})
    return launch_of(
        parse_step_spec(steps.claim(RUN_ID, node_id, **changes)),
        LaunchRules(),
        steps.owner(),
        folders=lambda name, workspace: CONTAINER_FOLDERS,
        fetch=_no_files,
        started_at="2026-01-02T03:04:05.123Z",
    )


async def ignore_pull(image: str) -> None:
    del image
