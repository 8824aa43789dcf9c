"""Every route × everybody: who gets what, and nothing of another workspace's.

`other` is a member of another workspace, `viewer` and `runner` are members of Ada's, `member` is
Ada, who administers it, `read`, `run` and `all` are API tokens of hers, `admin` administers the
installation, `agent` is the worker that holds the run's job, `agent-2` another one, `secret` who
knows the secret that agents register with.

Invariant 7: the jobs of one agent are another's 409, whatever it reports.
Invariant 8: agent routes take agents only.
Invariant 16: what belongs to another workspace is 404, as if it did not exist, and nowhere shown.
Invariant 17: what is for administrators is 403 to members.
Invariant 36: only public routes answer without a session (reference: control-plane 3).
Invariant 40: no answer holds null.

The table is routes.txt. A route or method without a row fails.
"""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.test_public_routes import routes as all_routes
from tests.integration.world import CANARY, COLUMNS, Belongings, Caller, World, prepare

NO_RUN = "run-0123456789ab"
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "PROPFIND", "BREW")
TABLE = Path(__file__).with_name("routes.txt")
REPORT: dict[str, Any] = {"agentId": "{me}", "attempt": 1}
REPORTS: dict[str, dict[str, Any]] = {
    "lease": {},
    "state": {"state": "running"},
    "logs": {"seq": 0, "lines": [{"text": "hello"}]},
    "complete": {"status": "succeeded"},
}
BODIES: dict[str, dict[str, Any]] = {
    "POST /api/v1/executions/{over}/rerun": {"dryRun": True},  # else the next run waits behind it
    "POST /api/v1/executions/{run}/shells": {"stepId": "nowhere"},
    "POST /api/v1/executions/{over}/repeats": {"stepId": "a"},
    "PUT /api/v1/executions/{over}/keep": {"keepAliveMs": 60_000},
    "POST /api/v1/auth/sign-in": {"email": "ada@example.org", "password": "wrong"},
    "POST /api/v1/executions": {"suiteId": "nowhere"},
    "POST /api/v1/agents/register": {"agentId": "new"},
    "POST /api/v1/agent-control/claims/next": {"agentId": "{me}"},
    "PUT /api/v1/workspaces/{workspace}/members/{user}": {"role": "runner"},
    "POST /api/v1/workspaces/{workspace}/invitations": {"role": "viewer"},
    "POST /api/v1/invitations/preview": {"token": "x"},
    "POST /api/v1/workspaces": {"name": " "},
    "POST /api/v1/auth/tokens": {"name": "x", "scope": "read"},
    "PUT /api/v1/workspaces/current": {"workspaceId": "00000000-0000-4000-8000-000000000000"},
    "POST /api/v1/invitations/accept": {"token": "x"},
    "POST /api/v1/mocks/explain": {"suiteId": "hello", "surfaceId": "nothing"},
    "POST /api/v1/mocks/verify": {"suiteId": "hello"},
    "PATCH /api/v1/mocks/state": {"suiteId": "hello", "key": "nothing"},
    **{
        f"POST /api/v1/agent-control/jobs/{{job}}/{what}": {**REPORT, **more}
        for what, more in REPORTS.items()
    },
}
QUERIES = {
    "GET /api/v1/executions/resolve-ref": "?ref=hello",
    "GET /api/v1/executions/{run}/logs/search": "?q=x",
    "GET /api/v1/executions/{run}/logs/at": "?ms=0",
    "GET /api/v1/streams": "?stream=/api/v1/engine/overview/stream",
    **{
        f"{method} /api/v1/mocks/{what}": "?suiteId=hello"
        for method in ("GET", "DELETE")
        for what in ("state", "journal")
    },
    "GET /api/v1/agent-control/jobs/{job}/content": "?attempt=1",
    "POST /api/v1/agent-control/jobs/{job}/artifacts": "?attempt=1&path=report.txt",
}


def routes() -> list[str]:
    """Without the admin's, which tests/integration/test_admin.py walks."""
    return [route for route in all_routes() if not route.startswith("admin/")]


def read_table() -> dict[str, list[str]]:
    """`GET /path` → the cells."""
    table = {}
    for line in TABLE.read_text().splitlines():
        if line and not line.startswith("#"):
            method, path, *cells = line.split()
            table[f"{method} {path}"] = cells
    return table


ROWS = read_table()


def shape(path: str) -> str:
    """As the URLconf has it: placeholders without names, no leading slash."""
    return re.sub(r"{[^}]*}", "{}", path).removeprefix("/")


def test_every_route_has_a_row():
    assert {shape(row.split()[1]) for row in ROWS} == set(routes())


def test_methods_without_a_row_are_not_allowed(world: World):
    named = {(row.split()[0], shape(row.split()[1])) for row in ROWS}
    allowed = dict.fromkeys(product(METHODS, routes()), 0)
    for caller in map(world.caller, ("admin", "agent", "secret")):
        for method, route in allowed:
            if not {(method, route), ("*", route)} & named:
                answer = caller.call(method, "/" + route.replace("{}", "edge-1"))
                assert answer.status_code in (401, 403, 405), (caller.name, method, route)
                assert answer["Content-Type"] == "application/problem+json", (method, route)
                assert answer.status_code != 405 or answer["Allow"], (method, route)
                allowed[method, route] = max(answer.status_code, allowed[method, route])
    assert set(allowed.values()) == {0, 405}


@pytest.mark.parametrize("row", [row for row in ROWS if "{run}" in row or "{over}" in row])
def test_another_workspaces_run_answers_as_one_that_does_not_exist(world: World, row: str):
    """Invariant 16: the same body but for the request's id."""
    method, path = row.split()
    stranger = world.caller("other")
    target = target_of(world, path)
    theirs = filled(path, target, stranger) + QUERIES.get(row, "")
    nobodys = theirs.replace(target.run.id, NO_RUN)

    there, nowhere = (stranger.call(method, asked, {}) for asked in (theirs, nobodys))

    assert there.status_code == nowhere.status_code == 404
    assert anonymized(there) == anonymized(nowhere).replace(NO_RUN, target.run.id)


def anonymized(answer: Any) -> str:
    """Without the request's id, and the form token of a page."""
    return re.sub(r'[0-9a-f]{8}-[0-9a-f-]{27}|"[A-Za-z0-9]{64}"', "-", answer.content.decode())


@pytest.fixture
def world(transactional_db, settings, tmp_path) -> World:
    prepare(settings, tmp_path)
    settings.PROFILE_WRITES = "members"  # there are several workspaces
    return World()


@pytest.mark.parametrize("row", ROWS)
def test_everybody_gets_what_the_table_says(world: World, row: str):
    method, path = row.split()
    answers = {}
    target = None
    for name in COLUMNS:
        caller = world.caller(name, again=target is None)
        world.forget_attempts()
        target = target or target_of(world, path)
        asked = filled(path, target, caller) + QUERIES.get(row, "")
        body = body_of(row, caller)
        changed = False
        for one in METHODS if method == "*" else [method]:
            answer = caller.call(one, asked, body)
            answers[caller.name] = cell(answer)
            if answer.streaming:
                assert is_streamed(caller, asked, answer, target), asked
            elif caller.name in ("anonymous", "other"):
                assert reveals_nothing(answer, target), answer.content
            if "json" in answer.get("Content-Type", ""):
                assert not holds_null(json.loads(answer.content)), answer.content
            changed |= one != "GET" and answer.status_code < 300
            answer.close()
        if changed:  # the next caller finds what nobody has changed
            target = None

    assert answers == dict(zip(COLUMNS, ROWS[row], strict=True))


def target_of(world: World, path: str) -> Belongings:
    return world.belongings(finished="{over}" in path)


def filled(path: str, target: Belongings, caller: Caller) -> str:
    values = {
        "run": target.run.id,
        "over": target.run.id,
        "artifact": target.artifact_id,
        "job": target.job_id,
        "agent": "edge-1",
        "workspace": target.workspace_id,
        "user": target.member_id,
        "invitation": target.invitation_id,
        "suite": "hello",
        "subsystem": "datastore",
        "package": "workspace-hello",
    }
    return re.sub(r"{(\w+)}", lambda found: values.get(found[1], "some"), path)


def body_of(row: str, caller: Caller) -> dict[str, Any] | None:
    if row.startswith("GET"):
        return None
    body = dict(BODIES.get(row, {}))
    if body.get("agentId") == "{me}":
        body["agentId"] = caller.agent_id or "edge-1"
    return body


def cell(answer: Any) -> str:
    to_sign_in = answer.status_code == 302 and answer["Location"].startswith("/sign-in")
    return "in" if to_sign_in else str(answer.status_code)


def is_streamed(caller: Caller, asked: str, answer: Any, target: Belongings) -> bool:
    """Read it for real: its first frames, and whose run they tell of."""
    if answer["Content-Type"] != "text/event-stream":
        whole = caller.reads(asked, until=lambda _: False)
        return whole.ended and b"attachment" in whole.headers["content-disposition"].encode()
    read = caller.reads(asked, until=lambda body: body.count(b"\n\n") >= 2)
    frames = read.body.split(b"\n\n")
    first, second = [each for each in frames if not each.startswith(b"event: stream\n")][:2]
    assert read.headers["content-type"] == "text/event-stream"
    assert first == b": connected"
    assert second.startswith(b"id: ")
    json.loads(second.partition(b"\ndata: ")[2])
    if asked.startswith("/api/v1/sandboxes/"):  # nobody looks here: it has no run to tell of
        return target.run.id.encode() not in second and b'"sandboxes":[]' in second
    mine = caller.name != "other"
    return (target.run.id.encode() in second) is mine and (mine or CANARY.encode() not in second)


@pytest.mark.parametrize("what", ["events", "logs"])
def test_the_stream_of_a_finished_run_is_read_to_its_end(world: World, what: str):
    member = world.caller("member")
    target = world.belongings(finished=True)

    read = member.reads(f"/api/v1/executions/{target.run.id}/{what}", until=lambda _: False)

    frames = read.body.decode().split("\n\n")
    ids = [json.loads(each.partition("\ndata: ")[2])["id"] for each in frames[1:-2]]
    assert read.ended
    assert frames[0] == ": connected"
    assert ids == list(range(1, len(ids) + 1))
    assert frames[-2].startswith("event: end\ndata: ")
    assert frames[-1] == ""


def holds_null(value: Any) -> bool:
    """Return whether a value of JSON is null, or holds null at any depth."""
    if isinstance(value, dict):
        return any(map(holds_null, value.values()))
    return any(map(holds_null, value)) if isinstance(value, list) else value is None


def reveals_nothing(answer: Any, target: Belongings) -> bool:
    """Of the run; its id may come back where the caller named it (a problem's `instance`)."""
    body = answer.content.decode(errors="replace")
    return CANARY not in body and (answer.status_code >= 300 or target.run.id not in body)
