"""The live records of a run over a WebSocket, by a real client on a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from apps.accounts.models import User
from tests.apps.executions.runs import Run, Worker, booted_run, node
from tests.support.browser import PASSWORD, Server
from tests.support.people import principal_of

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def socket_of(api: httpx.Client, run_id: str, query: str = "", **headers: str) -> Any:
    address = f"{api.base_url}".replace("http", "ws", 1).rstrip("/")
    return connect(f"{address}/ws/executions/{run_id}{query}", additional_headers=headers)


def bearer(api: httpx.Client) -> dict[str, str]:
    return {"Authorization": api.headers["Authorization"]}


def messages(socket: ClientConnection) -> Iterator[dict[str, Any]]:
    """Every message until the server closes."""
    try:
        while True:
            yield json.loads(socket.recv(timeout=30))
    except ConnectionClosed:
        return


def close_code(socket: ClientConnection) -> tuple[int | None, str | None]:
    list(messages(socket))
    return socket.close_code, socket.close_reason


@pytest.fixture
def run(client: httpx.Client) -> Run:
    return booted_run(node("seed"), principal=principal_of(User.objects.get()))


@pytest.fixture
def worker(run: Run) -> Worker:
    worker = Worker()
    worker.claim()
    return worker


def test_records_are_those_of_the_streams_replayed_and_live(client, run, worker):
    """Invariant 10."""
    worker.log("seed", *(f"old {n}" for n in range(1500)))
    with socket_of(client, run.id, **bearer(client)) as socket:
        incoming = messages(socket)
        got = [next(incoming)]
        while not (got[-1]["stream"] == "logs" and got[-1]["data"]["line"]["text"] == "old 1499"):
            got.append(next(incoming))
        worker.log("seed", "live", seq=1500)
        worker.end("seed")
        got += incoming

    assert socket.close_code == 1000
    for name, member in (("events", "event"), ("logs", "line")):
        mine = [each for each in got if each["stream"] == name]
        records = [each["data"] for each in mine if each["type"] == "record"]
        body = client.get(f"/api/v1/executions/{run.id}/{name}").text
        told = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: ")]
        assert [(each["id"], each[member]) for each in records] == [
            (each["id"], each[member]) for each in told[:-1]
        ]
        assert mine[-1] == {"type": "end", "stream": name, "data": told[-1]}


def test_a_client_resumes_each_stream_after_its_last_record(client, run, worker):
    worker.log("seed", "one", "two", "three")
    worker.end("seed")
    with socket_of(client, run.id, "?sinceEvents=2&sinceLogs=3", **bearer(client)) as socket:
        got = [each for each in messages(socket) if each["type"] == "record"]

    first = {
        name: next(e["data"]["id"] for e in got if e["stream"] == name)
        for name in ("events", "logs")
    }
    assert first == {"events": 3, "logs": 4}


def test_who_is_let_in(client, run, worker, server: Server):
    worker.end("seed")
    path = f"/ws/executions/{run.id}"
    ticket = client.post("/api/v1/auth/stream-tickets", json={"path": path}).json()["ticket"]
    cookie = session_cookie(server)
    token = bearer(client)["Authorization"].partition(" ")[2]

    for query, headers in (
        (f"?token={ticket}", {}),
        (f"?token={token}", {}),
        ("", {"Cookie": cookie, "Origin": server.url}),
    ):
        with socket_of(client, run.id, query, **headers) as socket:
            assert close_code(socket) == (1000, ""), (query, headers)
    with pytest.raises(InvalidStatus) as refused:
        socket_of(client, run.id, Cookie=cookie, Origin="https://evil.example")
    assert refused.value.response.status_code == 403
    with socket_of(client, run.id, Cookie=cookie) as socket:
        assert close_code(socket) == (4403, "origin_not_allowed")
    for query, code in (("", "unauthenticated"), (f"?token={ticket}", "ticket_invalid")):
        with socket_of(client, run.id, query) as socket:
            assert close_code(socket) == (4401, code)


def session_cookie(running: Server) -> str:
    with httpx.Client(base_url=running.url) as browser:
        browser.get("/sign-in")
        form = {"email": "ada@example.org", "password": PASSWORD}
        form["csrfmiddlewaretoken"] = browser.cookies["csrftoken"]
        answer = browser.post("/sign-in", data=form)
        assert answer.status_code == 302, answer.text
        return f"partita_session={browser.cookies['partita_session']}"


def test_what_is_refused_has_a_close_code(client, run, worker):
    """Invariant 16."""
    theirs = booted_run(node("other"))
    for run_id, query, wanted in (
        (theirs.id, "", (4404, "execution_not_found")),
        ("run-0123456789ab", "", (4404, "execution_not_found")),
        (run.id, "?sinceLogs=x", (4400, "invalid_parameter")),
        (run.id, "?other=1", (4400, "unknown_parameter")),
    ):
        with socket_of(client, run_id, query, **bearer(client)) as socket:
            assert close_code(socket) == wanted
    with socket_of(client, run.id, **bearer(client)) as socket:
        socket.send("hello")
        assert close_code(socket)[0] == 1008
    with pytest.raises(InvalidStatus):
        connect(f"ws://{client.base_url.netloc.decode()}/ws/nowhere")


def test_a_client_that_does_not_read_delays_only_itself(client, run, worker):
    """Invariant 10: and it still gets every line."""
    query = "?sinceLogs=0&source=seed"
    with (
        socket_of(client, run.id, query, **bearer(client)) as slow,
        socket_of(client, run.id, query, **bearer(client)) as quick,
    ):
        for start in range(0, 6_000, 1_000):
            worker.log("seed", *(f"{start + n} {'x' * 1_000}" for n in range(1_000)), seq=start)
        worker.end("seed")

        seen = [lines_of(socket) for socket in (quick, slow)]

    assert seen == [list(range(6_000))] * 2


def lines_of(socket: ClientConnection) -> list[int]:
    """The numbers at the beginning of the lines with output, until the server closes."""
    lines = (each["data"].get("line", {}) for each in messages(socket) if "data" in each)
    return [int(line["text"].split()[0]) for line in lines if line.get("kind") == "output"]


def test_a_process_that_shuts_down_says_so(client, run, worker, server: Server):
    with socket_of(client, run.id, **bearer(client)) as socket:
        assert json.loads(socket.recv(timeout=30))["type"] == "record"
        assert server.process is not None
        server.process.terminate()
        assert close_code(socket)[0] == 1001
    assert server.process.wait(20) is not None
    server.start()
