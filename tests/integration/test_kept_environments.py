"""A failed run whose environment is kept, on real runtimes: what stays, a kill -9, and the end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.support.processes import until
from tests.support.up import REAL_RUNTIMES, Up, up_with_suite

SUITE = """
load("@partita/runtime", "service", "task")

store = service.run(name = "store", image = "busybox:1.36", ready = {"log": "ready"},
                    commands = ["echo ready", "while true; do date > beat; sleep 0.2; done"])
task.run(name = "seed", image = "busybox:1.36", after = [store],
         commands = ["echo half > rows", "exit 3"])
"""
KEPT_S = 4
KILLS = int(os.environ.get("PARTITA_FAULT_MOMENTS", "1"))


@pytest.fixture(scope="module", params=REAL_RUNTIMES)
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("kept")
    with up_with_suite(folder, request.param, "half", SUITE, {}) as up:
        yield up


def fail(up: Up, keep: str) -> dict[str, Any]:
    launched = up.json("run", "launch", "half", "--keep", keep)
    detail = up.wait_for(launched["id"])
    assert detail["status"] == "Failed", detail["sentence"]
    return detail


def containers(up: Up, run_id: str) -> dict[str, str]:
    """Step id → state of what the environment has, once a look has found it."""

    def found() -> dict[str, Any] | None:
        sandboxes = up.get("/sandboxes").json()["sandboxes"]
        return next((each for each in sandboxes if each["runId"] == run_id), None)

    environment = until(found, within_s=30, what="it is found", each_s=0.5)
    assert not environment["isZombie"]
    return {each["stepId"]: each["state"] for each in environment["containers"]}


def has_nothing(up: Up, run_id: str) -> bool:
    return all(one["runId"] != run_id for one in up.get("/sandboxes").json()["sandboxes"])


def test_the_service_runs_on_and_the_failed_step_is_left_as_it_ended(up: Up):
    run = fail(up, "30m")
    left = {"store": "running", "seed": "exited"}  # the first look may be of the run in progress
    until(lambda: containers(up, run["id"]) == left, within_s=30, what="a look sees it", each_s=0.5)
    assert run["events"][-2]["id"] == "execution-kept"
    ended = up.partita("run", "keep", run["id"], "--end")
    assert ended.returncode == 0, ended.stderr
    until(lambda: has_nothing(up, run["id"]), within_s=45, what="it is removed", each_s=0.5)
    assert up.partita("run", "keep", run["id"], "--for", "1m").returncode == 5


def test_a_kill_of_everything_of_ours_leaves_it_as_it_is(up: Up):
    run = fail(up, "30m")
    left = {"store": "running", "seed": "exited"}
    for _ in range(KILLS):
        up.send(signal.SIGKILL)
        up.exit_code()
        up.start()
        # two heartbeats of the new runner, which would have removed what nobody keeps
        agent = up.get("/agents").json()["agents"][0]["agentId"]
        until(partial(_has_two_heartbeats, up, agent), within_s=60, what="it lives")
        # what is shown may be of a look while the run went on
        until(lambda: containers(up, run["id"]) == left, within_s=30, what="it is all there")
    up.json("run", "keep", run["id"], "--end")
    until(lambda: has_nothing(up, run["id"]), within_s=45, what="it is removed", each_s=0.5)


def test_it_ends_at_its_time(up: Up):
    run = fail(up, f"{KEPT_S}s")
    assert "until" in run["keep"]
    until(lambda: has_nothing(up, run["id"]), within_s=60, what="it is removed", each_s=0.5)
    assert "endedBy" not in up.detail(run["id"])["keep"]


_seen: dict[str, set[str]] = {}


def _has_two_heartbeats(up: Up, agent_id: str) -> bool:
    """Whether two heartbeats of an agent were seen since the last start."""
    agents = up.get("/agents").json()["agents"]
    beats = _seen.setdefault(f"{agent_id} {up.starts}", set())
    beats |= {each["lastHeartbeatAt"] for each in agents if each["agentId"] == agent_id}
    return len(beats) > 1
