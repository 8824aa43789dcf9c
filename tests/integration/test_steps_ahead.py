"""Runs whose steps start ahead, on a real engine: through a failure, a cancel and a kill -9.

(decision 0060)
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.docker_engine import containers, docker
from tests.support.parts import need
from tests.support.processes import until
from tests.support.up import Up, up_with_suite, write_suite

SUITE = """
load("@partita/runtime", "task", "test")

def chain(prefix, first):
    mark = "echo %s-{0} >> $PARTITA_WORKSPACE_DIR/ran.txt" % prefix
    a = task.run(name = prefix + "-a", image = "busybox:1.36", commands = [first])
    b = task.run(name = prefix + "-b", image = "busybox:1.36", after = [a],
                 commands = [mark.format("b"), "echo b of $PARTITA_STEP_ID", "echo again"])
    test.run(name = prefix + "-c", image = "busybox:1.36", after = [b],
             commands = [mark.format("c"), "cat $PARTITA_WORKSPACE_DIR/ran.txt"])

chain("it", "FIRST")
"""
WAIT = "until [ -e $PARTITA_WORKSPACE_DIR/go ]; do sleep 0.2; done"
FIRST = {"fine": WAIT, "broken": f"{WAIT}; exit 3", "long": "sleep 60"}
pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    need("TEST_DOCKER_HOST", "a Docker engine")
    folder = tmp_path_factory.mktemp("ahead")
    with up_with_suite(folder, "docker", "fine", SUITE.replace("FIRST", FIRST["fine"]), {}) as up:
        for name in ("broken", "long"):
            write_suite(folder / "suites", name, SUITE.replace("FIRST", FIRST[name]), {})
        yield up


def states_of(run_id: str) -> dict[str, str]:
    return containers(run_id, "{{.State}}")


def let_first_end(run_id: str) -> None:
    docker("exec", f"partita-{run_id}-it-a-a1", "touch", "/partita/workspace/go")


def until_ahead(run_id: str, *names: str) -> dict[str, str]:
    def found() -> dict[str, str] | None:
        states = states_of(run_id)
        return states if all(states.get(name) == "running" for name in names) else None

    return until(found, within_s=60, what=f"{names} wait", each_s=0.1)


def until_nothing_left(run_id: str) -> None:
    until(lambda: not states_of(run_id), within_s=60, what="nothing is left", each_s=0.2)


def steps(detail: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["id"].removeprefix("it-"): each for each in detail["steps"]}


def output(up: Up, run_id: str, step: str) -> list[str]:
    lines = up.lines(run_id, source=f"it-{step}")
    return [line["text"] for line in lines if line["kind"] == "output"]


def test_the_next_steps_wait_and_then_run_once(up: Up) -> None:
    run_id = up.launch("fine")
    waiting = until_ahead(run_id, "it-b-ahead", "it-c-ahead")
    let_first_end(run_id)

    detail = up.wait_for(run_id)

    assert waiting["it-a-a1"] == "running"
    assert detail["status"] == "Healthy", detail["sentence"]
    found = steps(detail)
    assert found["a"]["finishedAt"] <= found["b"]["startedAt"]
    assert found["b"]["finishedAt"] <= found["c"]["startedAt"]
    assert output(up, run_id, "b") == ["b of it-b", "again"]
    assert output(up, run_id, "c") == ["it-b", "it-c"]
    until_nothing_left(run_id)


def test_a_failed_dependency_leaves_nothing(up: Up) -> None:
    run_id = up.launch("broken")
    until_ahead(run_id, "it-b-ahead")
    let_first_end(run_id)

    detail = up.wait_for(run_id)

    assert detail["status"] == "Failed"
    assert {name: each["status"] for name, each in steps(detail).items()} == {
        "a": "failed",
        "b": "skipped",
        "c": "skipped",
    }
    until_nothing_left(run_id)


def test_a_canceled_run_leaves_nothing(up: Up) -> None:
    run_id = up.launch("long")
    until_ahead(run_id, "it-b-ahead", "it-c-ahead")

    up.partita("run", "cancel", run_id)

    assert up.wait_for(run_id)["status"] == "Canceled"
    until_nothing_left(run_id)


def test_a_kept_environment_does_not_keep_what_never_came(up: Up) -> None:
    run_id = up.launch("broken", keepAliveMs=1_800_000)
    until_ahead(run_id, "it-b-ahead")
    let_first_end(run_id)
    up.wait_for(run_id)

    def is_gone() -> bool:
        return not any(name.endswith("-ahead") for name in states_of(run_id))

    until(is_gone, within_s=60, what="what never came is gone", each_s=0.5)
    assert "it-a-a1" in states_of(run_id)
    up.end_environment(run_id)


@pytest.mark.slow
def test_a_kill_while_steps_wait_runs_each_once(up: Up) -> None:
    """Invariants 3, 13, 14: what waits ends with its runner, and nothing of it has run."""
    run_id = up.launch("fine")
    until_ahead(run_id, "it-b-ahead", "it-c-ahead")
    up.send(signal.SIGKILL)
    up.exit_code()

    def has_ended() -> bool:
        states = states_of(run_id)
        return {states["it-b-ahead"], states["it-c-ahead"]} == {"exited"}

    until(has_ended, within_s=30, what="what waited has ended", each_s=0.1)
    up.start()
    let_first_end(run_id)
    detail = up.wait_for(run_id)

    assert detail["status"] == "Healthy", detail["sentence"]
    assert output(up, run_id, "c") == ["it-b", "it-c"]
    until_nothing_left(run_id)
