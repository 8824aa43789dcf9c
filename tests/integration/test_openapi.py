"""Invariant 33: whatever is sent to the API, well or badly made, no answer is an error of ours.

Schemathesis makes requests from the API's own description, with the ids of things that are there
and without; the answers must also be of the kinds and shapes that the description names. All
requests of an operation are sent by the first caller that it lets in, some by each caller.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.integration.world import Belongings, Caller, World, prepare
from tests.support.browser import Server

CALLERS: Final = ("admin", "agent", "secret", "member", "anonymous")
ENDLESS: Final = {"/api/v1/engine/overview/stream"}
STREAMS: Final = ("/events", "/logs", "/probes")  # asked for where they end: of a finished run
# Said on purpose: what this release lacks, and backends and mail that this server has not.
HONEST: Final = {"not_available", "backend_unavailable", "mail_unavailable"}
# Of each operation and mode, well and badly made; `make faults` asks for 100 others each time.
MORE_EXAMPLES: Final = "PARTITA_API_EXAMPLES"
EXAMPLES: Final = int(os.environ.get(MORE_EXAMPLES, "10"))
# A caller sends as many of each operation and mode, and the rest only when it is the first whose
# requests are not all refused with these: a refusal is given before the request is looked at.
REFUSALS: Final = (401, 403)
FIRST: Final = 4
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
    return World()


@pytest.fixture
def server(world: World, settings, tmp_path) -> Iterator[Server]:
    running = Server(tmp_path)
    running.environment |= {
        "PLATFORM_SETTINGS_FILE": str(settings.PLATFORM_SETTINGS_FILE),
        "SUITES_DIR": str(settings.SUITES_DIR),
        "AGENT_SHARED_SECRET": settings.AGENT_SHARED_SECRET,
    }
    running.start()
    yield running
    running.kill()


@dataclass(frozen=True)
class Drawn:
    case: Any
    to_what_is_there: bool


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


@pytest.mark.timeout(90 * EXAMPLES)
def test_no_request_is_an_error_of_ours(world: World, server: Server, subtests: pytest.Subtests):
    described = operations(world.caller("admin").call("GET", "/api/v1/schema").json())
    for name in CALLERS:
        with subtests.test(caller=name), requests.Session() as session:
            asked = 0
            for operation in described:
                world.forget_attempts()
                caller = world.caller(name)
                ids = {}
                if "{" in operation.path:
                    ids = known_ids(world.belongings(finished=operation.path.endswith(STREAMS)))
                sender = Sender(server.url, caller, ids, session)
                asked += sum(send(mode, sender, world) for mode in operation.modes)
            assert asked > 30 * FIRST
    let_in = [any(mode.sent and mode.drawn for mode in each.modes) for each in described]
    refused = [each.label for each, sent in zip(described, let_in, strict=True) if not sent]
    assert not refused, "nobody is let in"


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
    drawn = []

    @REQUESTS
    @given(case=operation.as_strategy(generation_mode=mode), to_what_is_there=st.booleans())
    def keep(case: Any, to_what_is_there: bool) -> None:
        drawn.append(Drawn(case, to_what_is_there))

    try:
        keep()
    except Unsatisfiable:
        return []
    return drawn


def known_ids(target: Belongings) -> dict[str, str]:
    """Path parameter → what is there."""
    return {
        "executionId": target.run.id,
        "artifactId": target.artifact_id,
        "jobId": target.job_id,
        "agentId": "edge-1",
        "suite_id": "hello",
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

    def send(self, drawn: Drawn) -> int:
        """Check the answer; return its status."""
        case = drawn.case.derive()
        if drawn.to_what_is_there:
            self._aim(case)
        self._session.cookies.clear()
        response = case.call(
            base_url=self._url, headers=self._headers, session=self._session, timeout=60
        )
        case.validate_response(response, checks=list(checks_of(response)))
        return int(response.status_code)

    def _aim(self, case: Any) -> None:
        for name in case.path_parameters:
            case.path_parameters[name] = self._ids.get(name, case.path_parameters[name])
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
