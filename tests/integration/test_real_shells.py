"""Shells in a kept run on real runtimes: by the command line and over the WebSocket."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.integration.test_kept_environments import SUITE
from tests.integration.test_shell_command import PersonAtTerminal
from tests.integration.test_shell_socket import Terminal
from tests.support.processes import ROOT, until
from tests.support.up import REAL_RUNTIMES, Up, up_with_suite


@pytest.fixture(scope="module", params=REAL_RUNTIMES)
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("shells")
    with up_with_suite(folder, request.param, "half", SUITE, {}) as up:
        yield up


@pytest.fixture
def run(up: Up) -> dict[str, Any]:
    return fail(up)


def fail(up: Up) -> dict[str, Any]:
    launched = up.json("run", "launch", "half", "--keep", "30m")
    detail = up.wait_for(launched["id"])
    assert detail["status"] == "Failed", detail["sentence"]
    [seed] = [step for step in detail["steps"] if step["id"] == "seed"]
    assert seed["exitCode"] == 3, (detail["sentence"], seed, up.lines(launched["id"]))
    return detail


def shell(up: Up, run_id: str, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "partita_program.py", "run", "shell", run_id, *words],
        cwd=ROOT,
        env=up.environment,
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_pipe_into_the_failed_step_sees_its_files_as_it_left_them(up: Up, run: dict[str, Any]):
    done = shell(up, run["id"], "seed", typed="cat rows\nexit 4\n")

    assert done.returncode == 4, done.stderr
    assert "half\n" in done.stdout


def test_a_command_in_a_service_that_goes_on(up: Up, run: dict[str, Any]):
    done = shell(up, run["id"], "store", "--", "sh", "-c", "cat beat; exit 9")

    assert done.returncode == 9, done.stderr
    assert "20" in done.stdout


def test_a_person_at_a_terminal(up: Up, run: dict[str, Any]):
    argv = [sys.executable, "partita_program.py", "run", "shell", run["id"], "store"]
    person = PersonAtTerminal(argv, up.environment | {"TERM": "xterm-256color"})
    try:
        person.await_text(b"secrets of the step")
        person.type(b"echo one$((1+1))\r")
        person.await_text(b"one2")
        person.type(b"stty size\r")
        person.await_text(b"30 100")
        person.resize(120, 40)
        person.type(b"sleep 0.5; stty size\r")
        person.await_text(b"40 120")
        person.type(b"echo g''o; sleep 100\r")
        person.await_text(b"go\r\n")
        time.sleep(0.5)  # until the shell has given the terminal to `sleep`
        person.type(b"\x03")
        person.type(b"echo after=$?\r")
        person.await_text(b"after=130")
        person.type(b"exit 6\r")
        assert person.process.wait(60) == 6
        assert person.attributes() == person.before
    finally:
        person.close()


@pytest.fixture
def api(up: Up) -> Iterator[httpx.Client]:
    with up.client() as client:
        yield client


def test_over_the_websocket(up: Up, run: dict[str, Any], api: httpx.Client):
    answer = api.post(f"/executions/{run['id']}/shells", json={"stepId": "seed"})
    opened = answer.json()
    address = up.url.replace("http", "ws", 1) + opened["socket"]
    headers = {"Authorization": api.headers["Authorization"]}
    with connect(address, additional_headers=headers) as socket:
        terminal = Terminal(socket)
        while not any(each.get("session", {}).get("state") == "open" for each in terminal.messages):
            terminal.take()
        socket.send(b"cat rows; printf '\\033]0;hostile\\007'; echo don''e\r")
        terminal.await_text(b"done\r\n")
        assert b"half" in terminal.text
        assert b"\x1b]0;" not in terminal.text
        gone = api.delete(f"/executions/{run['id']}/shells/{opened['shellId']}")
        assert gone.status_code == 204
        assert terminal.await_close()[0] == 1000

    listed = up.get(f"/executions/{run['id']}/shells").json()["shells"]
    assert listed[0]["end"]["code"] == "ended_by_user"
    assert listed[0]["notice"]


def test_the_end_of_the_environment_ends_its_shells(up: Up, api: httpx.Client):
    run = fail(up)
    answer = api.post(f"/executions/{run['id']}/shells", json={"stepId": "store"})
    assert answer.status_code == 201, answer.text
    opened = answer.json()
    path = f"/executions/{run['id']}/shells"

    def newest() -> dict[str, Any]:
        found: dict[str, Any] = up.get(path).json()["shells"][0]
        return found

    until(lambda: newest()["state"] == "open", within_s=60, what="it is open", each_s=0.2)
    up.json("run", "keep", run["id"], "--end")
    until(lambda: newest()["state"] == "ended", within_s=60, what="it has ended", each_s=0.2)

    assert newest()["shellId"] == opened["shellId"]
    assert newest()["end"]["code"] == "not_kept"
    assert shell(up, run["id"], "store").returncode == 5
