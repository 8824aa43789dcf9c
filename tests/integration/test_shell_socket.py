"""Shells over the WebSocket of a real server; the runner is another process without Redis.

(reference: control-plane 11.7)
"""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from apps.accounts.api import Role
from apps.accounts.models import Membership, User
from apps.executions.models import Execution
from apps.shells.models import ShellSession
from tests.apps.executions_rest.conftest import Caller
from tests.apps.shells import conftest as shells
from tests.apps.shells.conftest import RunnerOfShells, await_shell, await_state, keep_run
from tests.integration.test_websocket import session_cookie
from tests.support.browser import Server
from tests.support.fake_shells import RuntimeWithShells
from tests.support.processes import until

runtime, start_runner = shells.runtime, shells.start_runner
pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def run(client: httpx.Client, runtime: RuntimeWithShells) -> Execution:
    run = keep_run(Caller(User.objects.get(email="ada@example.org"), ""))
    runtime.give_unit(run.run_id, "seed")
    return run


@pytest.fixture
def runner(runtime: RuntimeWithShells, start_runner: Any) -> RunnerOfShells:
    started: RunnerOfShells = start_runner(runtime)
    return started


def open_shell(api: httpx.Client, run: Execution) -> str:
    answer = api.post(f"/api/v1/executions/{run.run_id}/shells", json={"stepId": "seed"})
    assert answer.status_code == 201, answer.text
    shell_id: str = answer.json()["shellId"]
    return shell_id


def socket_of(api: httpx.Client, shell_id: str, query: str = "", **headers: str) -> Any:
    address = f"{api.base_url}".replace("http", "ws", 1).rstrip("/")
    return connect(f"{address}/ws/shells/{shell_id}{query}", additional_headers=headers)


def bearer(api: httpx.Client) -> dict[str, str]:
    return {"Authorization": api.headers["Authorization"]}


class Terminal:
    """What a client has got so far."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.text = b""
        self.last_id = 0
        self.messages: list[dict[str, Any]] = []

    def take(self) -> None:
        message = self.socket.recv(timeout=30)
        if isinstance(message, bytes):
            assert int.from_bytes(message[:8], "big") > self.last_id
            self.last_id = int.from_bytes(message[:8], "big")
            self.text += message[8:]
        else:
            self.messages.append(json.loads(message))

    def await_text(self, text: bytes) -> None:
        while text not in self.text:
            self.take()

    def await_close(self) -> tuple[int | None, str | None]:
        try:
            while True:
                self.take()
        except ConnectionClosed:
            return self.socket.close_code, self.socket.close_reason


def test_keys_go_in_and_output_comes_out_until_the_end(client, run, runner, runtime):
    shell_id = open_shell(client, run)
    with socket_of(client, shell_id, **bearer(client)) as socket:
        terminal = Terminal(socket)
        terminal.await_text(b"$ ")
        socket.send(b"hello\r")
        terminal.await_text(b"said: hello")
        socket.send(json.dumps({"type": "resize", "columns": 101, "rows": 33}))
        socket.send(b"size\r")
        terminal.await_text(b"101 x 33")
        socket.send(b"exit 7\r")
        assert terminal.await_close() == (1000, "")

    states = [each["session"]["state"] for each in terminal.messages if "session" in each]
    assert states in (["opening", "open", "ended"], ["open", "ended"])  # the runner may be first
    end = terminal.messages[-1]
    assert (end["type"], end["session"]["exitCode"]) == ("end", 7)
    assert end["session"]["end"] == {"code": "exited", "detail": "the program ended with 7"}


def test_a_client_that_comes_back_misses_nothing(client, run, runner, runtime):
    shell_id = open_shell(client, run)
    with socket_of(client, shell_id, **bearer(client)) as socket:
        first = Terminal(socket)
        first.await_text(b"$ ")
        socket.send(b"one\r")
        first.await_text(b"said: one")
    shell = await_shell(runtime, shell_id)
    runner.do(lambda: shell.print(b"meanwhile\r\n"))

    query = f"?after={first.last_id}"
    with socket_of(client, shell_id, query, **bearer(client)) as socket:
        second = Terminal(socket)
        second.await_text(b"meanwhile")
        socket.send(b"two\r")
        second.await_text(b"said: two")
    with socket_of(client, shell_id, **bearer(client)) as socket:
        whole = Terminal(socket)
        whole.await_text(b"said: two")

    assert whole.text.startswith(first.text + second.text[:20])
    assert ShellSession.objects.get().state == "open"


def test_the_session_outlives_kill_9_of_the_web_process(
    client, run, runner, runtime, server: Server
):
    """Invariant 15."""
    shell_id = open_shell(client, run)
    with socket_of(client, shell_id, **bearer(client)) as socket:
        terminal = Terminal(socket)
        terminal.await_text(b"$ ")
        server.kill()
        terminal.await_close()
    shell = await_shell(runtime, shell_id)
    runner.do(lambda: shell.print(b"while it was away\r\n"))
    server.start()

    query = f"?after={terminal.last_id}"
    with socket_of(client, shell_id, query, **bearer(client)) as socket:
        again = Terminal(socket)
        again.await_text(b"while it was away")
        socket.send(b"hello\r")
        again.await_text(b"said: hello")


def test_who_is_let_in(client, run, runner, server: Server):
    shell_id = open_shell(client, run)
    path = f"/ws/shells/{shell_id}"
    ticket = client.post("/api/v1/auth/stream-tickets", json={"path": path}).json()["ticket"]
    token = bearer(client)["Authorization"].partition(" ")[2]
    cookie = session_cookie(server)

    for query, headers in (
        (f"?token={ticket}", {}),
        (f"?token={token}", {}),
        ("", {"Cookie": cookie, "Origin": server.url}),
    ):
        with socket_of(client, shell_id, query, **headers) as socket:
            Terminal(socket).await_text(b"$ ")
    with pytest.raises(InvalidStatus) as refused:
        socket_of(client, shell_id, Cookie=cookie, Origin="https://evil.example")
    assert refused.value.response.status_code == 403
    with socket_of(client, shell_id, Cookie=cookie) as socket:
        assert Terminal(socket).await_close() == (4403, "origin_not_allowed")
    for query, code in (("", "unauthenticated"), (f"?token={ticket}", "ticket_invalid")):
        with socket_of(client, shell_id, query) as socket:
            assert Terminal(socket).await_close() == (4401, code)


def test_what_is_refused_has_a_close_code(client, run, runner, server: Server):
    """Invariant 16."""
    shell_id = open_shell(client, run)
    facts = {"fullName": "Bob", "email": "bob@example.org", "password": "Str0ngEnough"}
    token = httpx.post(f"{server.url}/api/v1/auth/sign-up", json=facts).json()["token"]
    bob = {"Authorization": f"Bearer {token}"}

    for wanted_id, query, headers, wanted in (
        (shell_id, "", bob, (4404, "shell_not_found")),
        ("nothing", "", bearer(client), (4404, "shell_not_found")),
        (shell_id, "?after=x", bearer(client), (4400, "invalid_parameter")),
        (shell_id, "?since=1", bearer(client), (4400, "unknown_parameter")),
    ):
        with socket_of(client, wanted_id, query, **headers) as socket:
            assert Terminal(socket).await_close() == wanted
    for message in ("hello", '{"type":"resize","columns":0,"rows":1}', "[" * 50_000):
        with socket_of(client, shell_id, **bearer(client)) as socket:
            terminal = Terminal(socket)
            terminal.await_text(b"$ ")
            socket.send(message)
            assert terminal.await_close() == (1008, "bad_message")
    with socket_of(client, shell_id, **bearer(client)) as socket:
        terminal = Terminal(socket)
        terminal.await_text(b"$ ")
        socket.send(b"x" * (2**16 + 1))
        assert terminal.await_close() == (1009, "message_too_big")


def test_who_loses_the_role_loses_the_shell(client, run, runner):
    """Invariant 16."""
    shell_id = open_shell(client, run)
    ada = User.objects.get(email="ada@example.org")
    with socket_of(client, shell_id, **bearer(client)) as socket:
        terminal = Terminal(socket)
        terminal.await_text(b"$ ")
        Membership.objects.filter(user=ada).update(role=Role.VIEWER)
        assert terminal.await_close() == (4401, "")
    with socket_of(client, shell_id, **bearer(client)) as socket:
        assert Terminal(socket).await_close() == (4403, "role_required")


def test_much_output_arrives_whole_and_much_input_as_well(client, run, runner, runtime):
    shell_id = open_shell(client, run)
    with socket_of(client, shell_id, **bearer(client)) as socket:
        terminal = Terminal(socket)
        terminal.await_text(b"$ ")
        socket.send(b"flood 3000000\r")
        while terminal.text.count(b"x") < 3_000_000:
            terminal.take()
        for _ in range(40):
            socket.send(b"y" * 2**16)
        shell = await_shell(runtime, shell_id)
        until(lambda: shell.written.count(b"y") == 40 * 2**16, within_s=60, what="all is typed")


def test_the_echo_of_a_key_comes_soon(client, run, runner):
    shell_id = open_shell(client, run)
    took: list[float] = []
    with socket_of(client, shell_id, **bearer(client)) as socket:
        terminal = Terminal(socket)
        terminal.await_text(b"$ ")
        for _ in range(20):
            terminal.text = b""
            began = time.monotonic()
            socket.send(b"k")
            terminal.await_text(b"k")
            took.append(time.monotonic() - began)
            time.sleep(0.05)
    took.sort()
    print(f"echo: median {took[10] * 1000:.0f} ms, worst {took[-1] * 1000:.0f} ms")

    assert took[10] < 0.5
    await_state(shell_id, "open")
