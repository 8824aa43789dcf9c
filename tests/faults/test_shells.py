"""kill -9 while a shell is open: of the web process, and of the runner that holds it.

The seed is printed; PARTITA_FAULT_SEED repeats a run, PARTITA_FAULT_MOMENTS draws more moments.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import docker
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.faults.rounds import SEED
from tests.integration.test_kept_environments import SUITE
from tests.integration.test_shell_socket import Terminal
from tests.support.cluster import Cluster
from tests.support.parts import need
from tests.support.processes import until
from tests.support.up import write_suite

COUNT = int(os.environ.get("PARTITA_FAULT_MOMENTS", "2"))
pytestmark = [pytest.mark.docker, pytest.mark.postgres, pytest.mark.redis]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, postgres: str) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("shells")
    write_suite(folder / "suites", "half", SUITE, {})
    suites = [folder / "suites" / "half"]
    with Cluster(folder / "cluster", postgres=postgres, suites=suites) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def run_id(cluster: Cluster) -> str:
    answer = cluster.client.post("/executions", json={"suiteId": "half", "keepAliveMs": 3_600_000})
    assert answer.status_code == 201, answer.text
    found: str = answer.json()["id"]
    until(
        lambda: cluster.client.get(f"/executions/{found}").json()["status"] == "Failed",
        within_s=90,
        what="the run has failed",
        each_s=0.3,
    )
    return found


def open_shell(cluster: Cluster, run_id: str, step: str) -> dict[str, Any]:
    answer = cluster.client.post(f"/executions/{run_id}/shells", json={"stepId": step})
    assert answer.status_code == 201, answer.text
    opened: dict[str, Any] = answer.json()
    return opened


@contextmanager
def terminal_of(cluster: Cluster, opened: dict[str, Any], after: int = 0) -> Iterator[Terminal]:
    address = f"{cluster.url.replace('http', 'ws', 1)}{opened['socket']}?after={after}"
    headers = {"Authorization": cluster.client.headers["Authorization"]}
    with connect(address, additional_headers=headers, open_timeout=30) as socket:
        yield Terminal(socket)


def session(cluster: Cluster, run_id: str, opened: dict[str, Any]) -> dict[str, Any]:
    listed = cluster.client.get(f"/executions/{run_id}/shells").json()["shells"]
    return next(each for each in listed if each["shellId"] == opened["shellId"])


def count_until_lost(terminal: Terminal, within_s: float) -> None:
    """Let the shell write numbers and take what comes, until the connection is lost."""
    deadline = time.monotonic() + within_s
    try:
        while time.monotonic() < deadline:
            terminal.take()
    except (ConnectionClosed, TimeoutError):
        return


@pytest.mark.parametrize("step", ["store", "seed"])
def test_a_shell_survives_kill_9_of_the_web_process(cluster: Cluster, run_id: str, step: str):
    """Invariant 15: and its client misses no output."""
    draw = random.Random(f"{SEED} web {step}")
    for _ in range(COUNT):
        after_s, away_s = draw.uniform(0, 2), draw.uniform(0, 5)
        print(f"kill -9 web after {after_s:.2f} s, PARTITA_FAULT_SEED={SEED}", flush=True)
        opened = open_shell(cluster, run_id, step)
        with terminal_of(cluster, opened) as first:
            first.socket.send(b"mark=$((40+2))\r")
            first.socket.send(
                b"i=0; while [ $i -lt 80 ]; do i=$((i+1)); echo n$i,; sleep 0.1; done\r"
            )
            first.await_text(b"n1,")
            count_until_lost(first, after_s)
            cluster.processes["web"].crash(away_s=away_s)
            count_until_lost(first, 5)
        cluster.wait_ready()
        with terminal_of(cluster, opened, first.last_id) as again:
            again.await_text(b"n80,")
            again.socket.send(b"echo mark=$mark\r")
            again.await_text(b"mark=42")
            whole = first.text + again.text
            numbers = [part for part in whole.replace(b"\r\n", b" ").split() if part[:1] == b"n"]
            assert [each for each in numbers if each[1:-1].isdigit()] == [
                b"n%d," % number for number in range(1, 81)
            ]
            again.socket.send(b"exit 3\r")
            assert again.await_close()[0] == 1000
        assert session(cluster, run_id, opened)["exitCode"] == 3


@pytest.mark.parametrize("step", ["store", "seed"])
def test_a_runner_that_was_killed_ends_its_shells_and_leaves_nothing(
    cluster: Cluster, run_id: str, step: str
):
    """Invariant 15: the page and the terminal say so, and the next shell opens."""
    draw = random.Random(f"{SEED} runner {step}")
    engine = docker.DockerClient(base_url=need("TEST_DOCKER_HOST", "a Docker engine"))
    before = containers(engine, run_id)
    for _ in range(COUNT):
        after_s, away_s = draw.uniform(0, 3), draw.uniform(0, 3)
        print(f"kill -9 runner after {after_s:.2f} s, PARTITA_FAULT_SEED={SEED}", flush=True)
        opened = open_shell(cluster, run_id, step)
        with terminal_of(cluster, opened) as terminal:
            terminal.socket.send(b"sleep 4321 & sleep 4321\r")
            count_until_lost(terminal, after_s)
            cluster.processes["runner"].crash(away_s=away_s)
            assert terminal.await_close()[0] == 1000
        end = session(cluster, run_id, opened)["end"]
        assert end["code"] in ("runner_restarted", "runner_gone", "not_opened"), end
        assert terminal.messages[-1]["session"]["end"] == end
        cluster.wait_ready()

        following = open_shell(cluster, run_id, step)
        with terminal_of(cluster, following) as terminal:
            terminal.socket.send(b"echo ready$((1+1)); exit\r")
            terminal.await_text(b"ready2")
            assert terminal.await_close()[0] == 1000
        until(
            lambda: containers(engine, run_id) == before and not sleepers(engine, run_id),
            within_s=60,
            what="nothing of the shells is left",
            each_s=0.5,
        )


def containers(engine: docker.DockerClient, run_id: str) -> set[str]:
    """The ids of all containers of the run, copies too; other tests have some of their own."""
    found = engine.api.containers(all=True, filters=_label(run_id))
    return {str(each["Id"]) for each in found}


def _label(run_id: str) -> dict[str, str | list[str] | bool]:
    return {"label": f"partita.run_id={run_id}"}


def sleepers(engine: docker.DockerClient, run_id: str) -> list[str]:
    """What the shells had started and should be gone."""
    rows = [
        " ".join(process)
        for container in engine.containers.list(filters=_label(run_id))
        for process in container.top()["Processes"]
    ]
    return [row for row in rows if "sleep 4321" in row]
