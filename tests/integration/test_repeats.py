"""Steps run again in a kept environment, on real runtimes, through a kill -9 in the middle."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.parts import need
from tests.support.processes import until
from tests.support.up import REAL_RUNTIMES, Up, up_with_suite

SUITE = """
load("@partita/runtime", "service", "task")

store = service.run(name = "store", image = "busybox:1.36", ready = {"log": "ready"},
                    commands = ["echo ready as $MODE", "while true; do sleep 0.2; done"],
                    env = {"MODE": "old"})
task.run(name = "seed", image = "busybox:1.36", file = "seed.sh", after = [store],
         env = {"BREAK": "yes"}).export("made.txt", on = "always")
"""
SEED = """#!/bin/sh
echo "attempt $PARTITA_ATTEMPT breaks: $BREAK"
cat "$PARTITA_WORKSPACE_DIR/tasks/words.txt"
echo by me > made.txt
[ "$BREAK" = no ] || exit 3
"""
FILES = {"tasks/seed.sh": SEED, "tasks/words.txt": "words of the suite\n"}
# s after it was asked for, or since it runs: about when it is taken, and while it runs
MOMENTS: tuple[float, ...] = (0.05, 1.0)
_MORE = random.Random(os.environ.get("PARTITA_FAULT_SEED", ""))
for _ in range(int(os.environ.get("PARTITA_FAULT_MOMENTS", "2")) - len(MOMENTS)):
    MOMENTS = (*MOMENTS, round(_MORE.uniform(0.06, 3), 2))


@pytest.fixture(scope="module", params=REAL_RUNTIMES)
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("again")
    with up_with_suite(folder, request.param, "half", SUITE, FILES) as up:
        yield up


@pytest.fixture
def run(up: Up) -> Iterator[dict[str, Any]]:
    """A run that failed, and whose environment is kept as long as the test lasts."""
    detail = up.wait_for(up.launch("half", keepAliveMs=1_800_000))
    assert detail["status"] == "Failed", detail["sentence"]
    yield detail
    up.end_environment(detail["id"])


def again(up: Up, run: dict[str, Any], *words: str) -> dict[str, Any]:
    """Run a step again to its end; return the repeat with its lines in `said`."""
    ended = up.partita("run", "again", run["id"], *words, "--watch", "-o", "json")
    repeat: dict[str, Any] = json.loads(ended.stdout)
    return {**repeat, "said": ended.stderr, "code": ended.returncode}


def everything_of(up: Up, run_id: str) -> tuple[str, ...]:
    paths = ("", "/junit", "/logs/download")
    found = up.get(f"/executions/{run_id}/logs/search", q="e").text
    return (*(up.get(f"/executions/{run_id}{path}").text for path in paths), found)


def test_a_step_succeeds_where_it_failed_and_the_run_stays_as_it_was(up: Up, run: dict[str, Any]):
    before = everything_of(up, run["id"])

    repeat = again(up, run, "seed", "--env", "BREAK=no")

    assert (repeat["state"], repeat["attempt"], repeat["code"]) == ("succeeded", 2, 0), repeat
    assert "attempt 2 breaks: no" in repeat["said"]
    assert "words of the suite" in repeat["said"]
    [artifact] = repeat["artifacts"]
    file = up.get(artifact["href"].removeprefix("/api/v1"))
    assert file.text == "by me\n"
    assert everything_of(up, run["id"]) == before


def test_files_of_this_machine_replace_those_of_the_step_alone(
    up: Up, run: dict[str, Any], tmp_path: Path
):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "suite.star").write_text("")
    (tmp_path / "tasks" / "words.txt").write_text("my own words\n")
    script = "#!/bin/sh\ncat tasks/words.txt $PARTITA_WORKSPACE_DIR/tasks/words.txt\n"
    (tmp_path / "tasks" / "seed.sh").write_text(script)

    repeat = again(up, run, "seed", "--files", str(tmp_path))

    assert repeat["state"] == "succeeded", repeat["said"]
    assert "my own words" in repeat["said"]
    assert "words of the suite" in repeat["said"]  # in the shared directory


def test_a_command_runs_where_the_file_did(up: Up, run: dict[str, Any]):
    repeat = again(up, run, "seed", "--command", "ls tasks; exit 5")

    assert (repeat["state"], repeat["exitCode"], repeat["code"]) == ("failed", 5, 10)
    assert "words.txt" in repeat["said"]


def test_a_service_takes_the_place_of_the_running_one(up: Up, run: dict[str, Any]):
    repeat = again(up, run, "store", "--env", "MODE=new")

    assert repeat["state"] == "succeeded", repeat
    assert "ready as new" in repeat["said"]
    assert repeat["sentence"].endswith("and runs on")
    until(  # the newest look may be of the moment before
        lambda: units(up, run["id"])["store"] == ["running"],
        within_s=30,
        what=lambda: f"one store runs: {units(up, run['id'])}",
        each_s=0.5,
    )


def units(up: Up, run_id: str) -> dict[str, list[str]]:
    """Step id → states of its units, once a look has found the environment.

    What stands by for a next attempt is listed too, but is no unit; a run has one at most.
    """

    def found() -> dict[str, Any] | None:
        sandboxes = up.get("/sandboxes").json()["sandboxes"]
        return next((each for each in sandboxes if each["runId"] == run_id), None)

    environment = until(found, within_s=30, what="it is found", each_s=0.5)
    states: dict[str, list[str]] = {}
    standby = [each for each in environment["containers"] if each["name"].endswith("-standby")]
    assert [each["state"] for each in standby] in ([], ["created"])
    for each in environment["containers"]:
        if each in standby:
            continue
        states.setdefault(each["stepId"], []).append(each["state"])
    return states


@pytest.mark.slow
@pytest.mark.parametrize("moment_s", MOMENTS)
def test_a_kill_in_the_middle_ends_it_and_the_step_runs_again(
    up: Up, run: dict[str, Any], moment_s: float
):
    asked = up.json("run", "again", run["id"], "seed", "--command", "echo begun; sleep 600")
    path = f"/executions/{run['id']}/repeats/{asked['id']}"
    if moment_s > MOMENTS[0]:
        until(lambda: up.get(path).json()["state"] == "running", within_s=30, what="it runs")
    time.sleep(moment_s)
    up.send(signal.SIGKILL)
    up.exit_code()
    up.start()

    def is_over() -> bool:
        return up.get(path).json()["state"] in ("failed", "running")

    until(is_over, within_s=60, what="it is taken or ended", each_s=0.2)
    if up.get(path).json()["state"] == "running":  # nobody had taken it before the kill
        cancel(up, path)
    ended = until(lambda: over(up, path), within_s=60, what="it has ended", each_s=0.2)
    second = again(up, run, "seed", "--env", "BREAK=no")

    assert (ended["state"], ended["reason"]) in (("failed", "agent_lost"), ("canceled", "canceled"))
    assert second["state"] == "succeeded", second["said"]
    left = {"store": ["running"], "seed": ["exited"]}
    until(lambda: units(up, run["id"]) == left, within_s=30, what="a look sees it", each_s=0.5)


def over(up: Up, path: str) -> dict[str, Any] | None:
    repeat: dict[str, Any] = up.get(path).json()
    return repeat if "finishedAt" in repeat else None


def cancel(up: Up, path: str) -> None:
    with up.client() as client:
        answer = client.post(f"{path.removeprefix('/')}/cancel", json={})
    assert answer.status_code in (202, 409), answer.text


@pytest.mark.docker
def test_seed_of_the_shop_succeeds_once_its_data_is_right(tmp_path: Path):
    """The walk of the guide: `shop` fails by broken.yaml, and `seed` runs again with BREAK=no."""
    examples = Path(__file__).parents[2] / "examples" / "oci-suites"
    up = Up(
        tmp_path / "up",
        LOCAL_RUNTIME="docker",
        DOCKER_HOST=need("TEST_DOCKER_HOST", "a Docker engine"),
        SUITES_DIR=str(examples),
        UP_DEMO="0",
    )
    up.start()
    try:
        launched = up.json("run", "launch", "shop", "--profile", "broken.yaml", "--keep", "30m")
        failed = up.wait_for(launched["id"], within_s=240)
        assert failed["status"] == "Failed"

        repeat = again(up, failed, "seed", "--env", "BREAK=no")

        assert repeat["state"] == "succeeded", repeat["said"]
        assert up.detail(failed["id"])["status"] == "Failed"
    finally:
        up.end()
