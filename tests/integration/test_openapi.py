"""Invariant 33: whatever is sent to the API, well or badly made, no answer is an error of ours.

Schemathesis makes requests from the API's own description, with the ids of things that are there
and without; the answers must also be of the kinds and shapes that the description names. All
requests of an operation are sent by the first caller that it lets in, some by each caller.

An administrator also writes: of each resource that packages and settings have, some requests must
succeed, so that the answers of success are checked, too.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.integration.world import Caller, World, prepare
from tests.support.browser import Server
from tests.support.processes import ROOT
from tests.support.servers import free_port

CALLERS: Final = ("admin", "agent", "secret", "member", "anonymous")
ENDLESS: Final = {"/api/v1/engine/overview/stream", "/api/v1/sandboxes/events"}
STREAMS: Final = ("/events", "/logs", "/probes")  # asked for where they end: of a finished run
# Said on purpose: what this release lacks, and backends and mail that this server has not.
HONEST: Final = {
    "not_available",
    "container_runtime_unavailable",
    "backend_unavailable",
    "mail_unavailable",
}
# Of each operation and mode, well and badly made; `make faults` asks for 100 others each time.
MORE_EXAMPLES: Final = "PARTITA_API_EXAMPLES"
EXAMPLES: Final = int(os.environ.get(MORE_EXAMPLES, "10"))
# A caller sends as many of each operation and mode, and the rest only when it is the first whose
# requests are not all refused with these: a refusal is given before the request is looked at.
REFUSALS: Final = (401, 403)
FIRST: Final = 4
WRITTEN: Final = ("catalog", "suites", "profiles", "platform-settings", "mocks")
SHOP: Final = ROOT / "examples" / "oci-suites" / "shop"
SUITE: Final = 'task.run("t", image="busybox:1.36")\n'
PROFILE: Final = {"name": "Target", "fileName": "target.yaml", "yaml": "env: {A: b}\n"}
REQUESTS: Final = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=MORE_EXAMPLES not in os.environ,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def world(transactional_db, settings, tmp_path) -> World:
    prepare(settings, tmp_path)
    shutil.copytree(SHOP, settings.SUITES_DIR / "shop")  # it has mocks
    registry = {  # nobody listens there
        "registryId": "away", "name": "Away", "provider": "Zot", "allowLocalNetwork": True,
        "registryUrl": f"http://127.0.0.1:{free_port()}",
    }  # fmt: skip
    with settings.PLATFORM_SETTINGS_FILE.open("a") as file:
        file.write(f"registries: [{json.dumps(registry)}]\n")
    return World()


@pytest.fixture
def server(world: World, settings, tmp_path) -> Iterator[Server]:
    names = ("PLATFORM_SETTINGS_FILE", "SUITES_DIR", "AGENT_SHARED_SECRET")
    with Server(tmp_path).serve(**{name: str(getattr(settings, name)) for name in names}) as made:
        yield made


@dataclass(frozen=True)
class Drawn:
    case: Any
    to_what_is_there: bool
    well_made: bool


@dataclass
class Requests:
    """Of one operation and mode; `sent`: all of them, by some caller."""

    drawn: list[Drawn]
    sent: bool = False


@dataclass(frozen=True)
class Operation:
    label: str
    path: str
    modes: list[Requests]
    statuses: set[int] = field(default_factory=set)  # of the answers

    @property
    def must_succeed(self) -> bool:
        return self.path.removeprefix("/api/v1/").split("/")[0] in WRITTEN


@pytest.mark.timeout(90 * EXAMPLES)
def test_no_request_is_an_error_of_ours(world: World, server: Server, subtests: pytest.Subtests):
    described = operations(world.caller("admin").call("GET", "/api/v1/schema").json())
    for name in CALLERS:
        with subtests.test(caller=name), requests.Session() as session:
            asked = 0
            for operation in described:
                world.forget_attempts()
                caller = world.caller(name)
                sender = Sender(server.url, caller, ids_for(world, operation, name), session)
                asked += sum(send(mode, sender, world) for mode in operation.modes)
                operation.statuses.update(sender.statuses)
            assert asked > 30 * FIRST
    let_in = [any(mode.sent and mode.drawn for mode in each.modes) for each in described]
    refused = [each.label for each, sent in zip(described, let_in, strict=True) if not sent]
    assert not refused, "nobody is let in"
    failed = [each.label for each in described if each.must_succeed and min(each.statuses) >= 300]
    assert not failed, "nothing has succeeded"


def operations(document: dict[str, Any]) -> list[Operation]:
    described = []
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        if operation.path not in ENDLESS:
            modes = [Requests(draw(operation, mode)) for mode in GenerationMode]
            assert modes[0].drawn, operation.label
            described.append(Operation(operation.label, operation.path, modes))
    return described


def draw(operation: Any, mode: GenerationMode) -> list[Drawn]:
    """An operation without input has no requests that are badly made."""
    drawn: list[Drawn] = []

    @REQUESTS
    @given(case=operation.as_strategy(generation_mode=mode))
    def keep(case: Any) -> None:
        to_what_is_there = len(drawn) % 2 == 0  # not drawn: the first one must be
        drawn.append(Drawn(case, to_what_is_there, mode is GenerationMode.POSITIVE))

    try:
        keep()
    except Unsatisfiable:
        return []
    return drawn


def ids_for(world: World, operation: Operation, caller: str) -> dict[str, str]:
    """Path parameter → what is there."""
    if "{" not in operation.path:
        return {}
    if operation.must_succeed:
        if caller == "admin":
            make_what_is_written(world.caller(caller))
        return written_ids(operation.label)
    target = world.belongings(finished=operation.path.endswith(STREAMS))
    return {
        "executionId": target.run.id,
        "artifactId": target.artifact_id,
        "jobId": target.job_id,
        "agentId": "edge-1",
    }


def make_what_is_written(admin: Caller) -> None:
    """Requests may have removed it."""
    admin.call("POST", "/api/v1/suites", {"id": "made", "suiteStar": SUITE})
    admin.call("POST", "/api/v1/profiles/suites/hello", PROFILE)


def written_ids(label: str) -> dict[str, str]:
    return {
        "package_id": "workspace-hello",
        "suite_id": "made" if label.startswith("DELETE") and "profiles" not in label else "hello",
        "profile_id": "target",
        "registry_id": "away",
    }


class Sender:
    def __init__(
        self, url: str, caller: Caller, ids: dict[str, str], session: requests.Session
    ) -> None:
        self._url = url
        self._session = session
        self._headers = {"Authorization": f"Bearer {caller.token}"} if caller.token else {}
        self._caller = caller
        self._ids = ids
        self.statuses: set[int] = set()

    def send(self, drawn: Drawn) -> int:
        """Check the answer; return its status."""
        case = drawn.case.derive()
        if drawn.to_what_is_there:
            self._aim(case)
            if drawn.well_made:
                self._fill(case)
        if isinstance(case.body, dict) and case.body.get("waitSeconds") in range(2, 31):
            case.body["waitSeconds"] = 1  # a claim that waits for nothing
        self._session.cookies.clear()
        response = case.call(
            base_url=self._url, headers=self._headers, session=self._session, timeout=60
        )
        case.validate_response(response, checks=list(checks_of(response)))
        self.statuses.add(response.status_code)
        return int(response.status_code)

    def _fill(self, case: Any) -> None:
        """Give the body what makes the request succeed, where the description cannot say it."""
        resource = case.path.removeprefix("/api/v1/").split("/")[0]
        if not isinstance(case.body, dict) or resource not in WRITTEN:
            return
        if resource == "suites":
            case.body |= {"id": f"made-{len(self.statuses)}", "suiteStar": SUITE, "files": {}}
        elif resource == "profiles":
            case.body = PROFILE | {"description": case.body.get("description", "")}
            if case.method == "POST":
                case.body |= {"fileName": f"made-{len(self.statuses)}.yaml"}
        elif resource == "mocks":
            call = {"method": "GET", "path": "/goods"}
            record = {"key": "made", "set": {"a": "b"}}
            what = call if case.path.endswith(("explain", "verify")) else record
            case.body = {"suiteId": "shop", "surfaceId": "shop", **what}
        elif resource == "platform-settings":
            place = f"{self._url}/api/v1/platform-settings"
            answer = self._session.get(place, headers=self._headers, timeout=60)
            if answer.ok:
                case.body = {**answer.json(), "description": case.body.get("description", "")}

    def _aim(self, case: Any) -> None:
        for name in case.path_parameters:
            case.path_parameters[name] = self._ids.get(name, case.path_parameters[name])
        if "/mocks/" in case.path and case.query:
            case.query = {"suiteId": "shop"}
        if isinstance(case.body, dict) and isinstance(case.body.get("agentId"), str):
            case.body |= {"agentId": self._caller.agent_id or "edge-1"}
            case.body |= {"attempt": 1} if "attempt" in case.body else {}


def checks_of(response: Any) -> Iterator[Any]:
    if response.status_code not in (501, 503) or response.json()["code"] not in HONEST:
        yield not_a_server_error
    yield content_type_conformance
    yield status_code_conformance
    if "text/event-stream" not in response.headers.get("content-type", [""])[0]:
        yield response_schema_conformance


def send(mode: Requests, sender: Sender, world: World) -> int:
    """How many requests were sent: all, or the first ones."""
    refused = 0
    for number, request in enumerate(mode.drawn, start=1):
        status = sender.send(request)
        if status == 429:
            world.forget_attempts()  # what is behind the limit is to be reached again
        refused += status in REFUSALS
        if number == FIRST and (mode.sent or refused == FIRST):
            return number
    mode.sent |= not mode.drawn or refused < len(mode.drawn)
    return len(mode.drawn)
