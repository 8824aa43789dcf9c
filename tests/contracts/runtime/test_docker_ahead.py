"""Containers that are started ahead: their program waits at a gate until the step may run."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernel import clock
from tests.contracts.runtime.conftest import Driver
from tests.support import steps
from tests.support.docker_engine import containers, docker
from tests.support.parts import need
from worker.domain.evaluation import UnitExit
from worker.domain.runtime import Launch, RuntimeOptions, Unit, UnitState
from worker.domain.step_spec import Port
from worker.runtimes.docker.container_start import ContainerStarter
from worker.runtimes.docker.runtime import DockerRuntime

pytestmark = pytest.mark.docker


def state(container: str) -> str:
    return docker("inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", container).strip()


async def until_state(container: str, expected: str) -> None:
    async with asyncio.timeout(30):
        while state(container) != expected:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)


@pytest.fixture
async def driver(docker_driver: Driver) -> Driver:
    await ended(docker_driver, docker_driver.launch("out:first", node_id="first"))  # a run is here
    return docker_driver


async def ended(driver: Driver, launch: Launch) -> tuple[Unit, UnitExit]:
    unit = await driver.runtime.start(launch)
    return unit, await driver.runtime.wait(unit)


async def test_the_program_waits_until_its_step_is_started(driver: Driver) -> None:
    launch = driver.launch("share:ran=yes", "out:done", "exit:3")

    assert await driver.runtime.start_ahead(launch)
    before = containers(driver.run_id)
    await asyncio.sleep(1)
    files = driver.launch("sh:ls $PARTITA_WORKSPACE_DIR", node_id="look")
    looker, _ = await ended(driver, files)
    assert "ran\n" not in await driver.texts(looker)
    assert state(before["step-ahead"]) == "running 0"
    assert docker("logs", before["step-ahead"]) == ""
    listed = {each.id: each for each in await driver.runtime.list_resources()}
    waiting = listed[before["step-ahead"]]
    assert (waiting.labels["partita.run_id"], waiting.started_at) == (driver.run_id, None)
    found = await driver.runtime.find(steps.owner())
    assert before["step-ahead"] not in [each.id for each in found]  # it is no unit yet

    asked_at = clock.now()
    unit, end = await ended(driver, launch)

    assert (unit.id, unit.name) == (before["step-ahead"], launch.name)
    assert end.exit_code == 3
    assert unit.started_at is not None
    assert unit.started_at >= asked_at  # not when the gate was started
    assert await driver.texts(unit) == ["done\n"]
    assert containers(driver.run_id)["step-a1"] == unit.id
    times = {each.id: each.started_at for each in await driver.runtime.list_resources()}
    assert clock.rfc3339(times[unit.id] or asked_at) == clock.rfc3339(unit.started_at)


REPORT = "; ".join(
    [
        "sh:env | sort | grep -v -e HOSTNAME -e _ID=",
        "pwd",
        "tr '\\0' '|' < /proc/self/cmdline",
        "readlink /proc/self/fd/0",
        "ls /proc/self/fd | wc -l",
        "ls; id; cat tasks/hello.sh",
    ]
)


async def test_the_program_finds_what_it_finds_without_a_gate(driver: Driver) -> None:
    env = {"A": "two\nlines", "Z": "ü $HOME 'x'", "PATH_LIKE": "a:b"}
    cold, cold_end = await ended(driver, driver.launch(REPORT, node_id="cold", env=env))
    launch = driver.launch(REPORT, node_id="gate", env=env)
    assert await driver.runtime.start_ahead(launch)

    unit, end = await ended(driver, launch)

    assert unit.name.endswith("-gate-a1")
    expected = [text.replace("cold", "gate") for text in await driver.texts(cold)]
    assert await driver.texts(unit) == expected
    assert end == cold_end


async def test_a_signal_reaches_the_program(driver: Driver) -> None:
    launch = driver.launch("sh:trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done")
    assert await driver.runtime.start_ahead(launch)
    unit = await driver.runtime.start(launch)
    async for records in driver.runtime.output(unit):
        assert records[0].data == b"ready\n"
        break

    await driver.runtime.stop(unit)

    assert (await driver.runtime.wait(unit)).exit_code == 7


@pytest.mark.parametrize("what", ["command", "variable", "files", "attempt"])
async def test_another_launch_gets_a_container_of_its_own(driver: Driver, what: str) -> None:
    assert await driver.runtime.start_ahead(driver.launch("env:A", env={"A": "old"}))
    before = containers(driver.run_id)["step-ahead"]
    asked = driver.launch("env:A", env={"A": "old"})
    if what == "command":
        asked = driver.launch("out:other", env={"A": "old"})
    elif what == "variable":
        asked = driver.launch("env:A", env={"A": "new"})
    elif what == "files":
        asked = replace(driver.launch("env:A", env={"A": "old"}), step_files=b"")
    else:
        asked = driver.launch("env:A", attempt=2, env={"A": "old"})

    unit, _ = await ended(driver, asked)

    expected = {"command": ["other\n"], "variable": ["new\n"]}
    assert await driver.texts(unit) == expected.get(what, ["old\n"])
    assert unit.id != before
    assert before not in containers(driver.run_id).values()


async def test_some_launches_are_not_started_ahead(driver: Driver) -> None:
    launch = driver.launch("out:x")
    not_here = replace(launch, image="no/such:image")
    other_run = replace(launch, networks={"partita-net-other": ()})
    refused = [
        replace(launch, kind="service"),
        replace(launch, ports=(Port(number=80),)),
        replace(launch, environment={**launch.environment, "spring.profile": "x"}),
        not_here,
        other_run,
    ]

    assert [await driver.runtime.start_ahead(each) for each in refused] == [False] * len(refused)
    assert containers(driver.run_id).keys() == {"first-a1"}


def _without_pid(text: str) -> str:
    """The engine's init names the process that it started for the program."""
    return re.sub(r"tini \(\d+\)", "tini", text)


async def test_a_program_that_is_not_there_fails_as_it_does_without_a_gate(driver: Driver) -> None:
    def absent(node_id: str) -> Launch:
        launch = driver.launch("out:x", node_id=node_id)
        return replace(launch, program=replace(launch.program, entrypoint=("/no/such", "x")))

    cold, cold_end = await ended(driver, absent("cold"))
    await driver.runtime.start_ahead(absent("step"))
    left = containers(driver.run_id)["step-ahead"]
    await until_state(left, "exited 127")
    await asyncio.sleep(0.5)  # the engine tells it

    unit, end = await ended(driver, absent("step"))

    assert (unit.id != left, end) == (True, cold_end)
    assert end.exit_code == 127
    told, told_cold = await driver.texts(unit), await driver.texts(cold)
    assert [_without_pid(text) for text in told] == [_without_pid(text) for text in told_cold]


@pytest.mark.parametrize("user", ["0", "1000:1000"])
async def test_an_image_without_a_shell_and_its_own_entrypoint(
    driver: Driver, tmp_path: Path, user: str
) -> None:
    image = f"partita-tests:{secrets.token_hex(4)}"
    host = need("TEST_DOCKER_HOST", "a Docker engine")
    create = (
        "mkdir root && docker -H $HOST create --name $NAME busybox:1.36 && "
        "docker -H $HOST cp $NAME:/bin/busybox root/echo && docker -H $HOST rm $NAME && "
        'tar -C root -c echo | docker -H $HOST import -c \'ENTRYPOINT ["/echo", "made"]\' '
        '-c \'CMD ["of image"]\' -c "USER $USER_ID" - $IMAGE'
    )
    names = {"HOST": host, "NAME": image.replace(":", "-"), "IMAGE": image, "USER_ID": user}
    folder = tmp_path / "image"
    folder.mkdir()
    words = ["sh", "-ec", create]
    await asyncio.to_thread(
        subprocess.run, words, check=True, cwd=folder, env={**os.environ, **names}
    )
    launch = driver.launch("out:x", node={"image": image, "commands": []})
    assert await driver.runtime.start_ahead(launch)

    unit, end = await ended(driver, launch)

    assert (await driver.texts(unit), end.exit_code) == (["made of image\n"], 0)
    assert unit.id == containers(driver.run_id)["step-a1"]
    await driver.runtime.release(driver.run_id, steps.owner())
    docker("rmi", image)


async def test_what_does_not_come_is_removed(driver: Driver) -> None:
    assert await driver.runtime.start_ahead(driver.launch("out:x"))

    await driver.runtime.remove_ahead(driver.run_id, "step")
    await driver.runtime.remove_ahead(driver.run_id, "step")

    assert containers(driver.run_id).keys() == {"first-a1"}


async def test_a_released_run_keeps_nothing(driver: Driver) -> None:
    assert await driver.runtime.start_ahead(driver.launch("out:x"))

    released, *_ = await asyncio.gather(
        driver.runtime.release(driver.run_id, steps.owner()),
        driver.runtime.start_ahead(driver.launch("out:x", node_id="other")),
    )

    assert not released.leftovers
    assert containers(driver.run_id) == {}
    assert not await driver.runtime.start_ahead(driver.launch("out:x"))


async def test_an_engine_that_is_reached_over_a_network_starts_nothing_ahead(
    tmp_path: Path,
) -> None:
    options = RuntimeOptions(
        state_dir=tmp_path, installation_id="x", address="tcp://192.0.2.1:2376"
    )
    elsewhere = DockerRuntime(options)

    assert not elsewhere.starts_ahead
    await elsewhere.close()


KILLED = """
import asyncio, os, sys
from pathlib import Path
from tests.contracts.runtime.conftest import Driver, shell_node
from tests.support import steps
from worker.domain.runtime import RuntimeOptions
from worker.runtimes.docker.runtime import DockerRuntime

async def main(folder, run_id, installation, when):
    steps.INSTALLATION = installation
    options = RuntimeOptions(state_dir=Path(folder), installation_id=installation)
    driver = Driver(runtime=DockerRuntime(options), reopen=lambda: None, words_to_node=shell_node)
    driver.run_id = run_id
    first = await driver.runtime.start(driver.launch("out:a", node_id="earlier"))
    launch = driver.launch("share:ran=once", "out:done", "sleep:2", "exit:3")
    assert await driver.runtime.start_ahead(launch)
    if when == "released":
        await driver.runtime.start(launch)
    print("ready", flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main(*sys.argv[1:]))
"""


def killed(driver: Driver, folder: Path, when: str) -> None:
    """A process that starts a step ahead is killed before or behind the release."""
    words = [sys.executable, "-c", KILLED, str(folder), driver.run_id, steps.INSTALLATION, when]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "ready\n"), done.stderr


def killed_launch(driver: Driver) -> Launch:
    return driver.launch("share:ran=once", "out:done", "sleep:2", "exit:3")


async def test_a_gate_ends_with_its_process_and_nothing_has_run(
    driver: Driver, tmp_path: Path
) -> None:
    killed(driver, tmp_path, "ahead")
    left = containers(driver.run_id)["step-ahead"]
    await until_state(left, "exited 125")
    looker, _ = await ended(driver, driver.launch("sh:ls $PARTITA_WORKSPACE_DIR", node_id="look"))

    assert "ran\n" not in await driver.texts(looker)
    found = [each.id for each in await driver.runtime.find(steps.owner())]
    assert left not in found
    unit, end = await ended(driver, killed_launch(driver))
    assert (unit.id != left, end.exit_code) == (True, 3)
    async with asyncio.timeout(30):
        while left in containers(driver.run_id).values():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)


async def test_a_released_program_outlives_its_process(driver: Driver, tmp_path: Path) -> None:
    killed(driver, tmp_path, "released")

    [unit] = [each for each in await driver.runtime.find(steps.owner()) if "step" in each.name]
    again = await driver.runtime.start(killed_launch(driver))
    end = await driver.runtime.wait(unit)

    assert again.id == unit.id
    assert unit.state is not UnitState.CREATED
    created = docker("inspect", "-f", "{{.Created}}", unit.id).strip()
    assert unit.started_at is not None
    assert unit.started_at > clock.parse_rfc3339(created[:23] + "Z")
    assert (await driver.texts(unit), end.exit_code) == (["done\n"], 3)


async def test_one_that_has_its_name_and_was_not_released_gives_way(driver: Driver) -> None:
    """As if the process had been killed between the rename and the release."""
    launch = driver.launch("out:done")
    assert await driver.runtime.start_ahead(launch)
    left = containers(driver.run_id)["step-ahead"]
    docker("rename", left, launch.name)
    after = driver.again()

    assert left not in [each.id for each in await after.find(steps.owner())]
    unit = await after.start(launch)
    await after.wait(unit)

    assert unit.id != left
    assert left not in containers(driver.run_id).values()
    assert await driver.texts(unit) == ["done\n"]


async def test_a_gate_that_has_ended_is_not_opened(driver: Driver) -> None:
    launch = driver.launch("out:done")
    assert await driver.runtime.start_ahead(launch)
    left = containers(driver.run_id)["step-ahead"]
    docker("kill", left)
    await until_state(left, "exited 137")
    await asyncio.sleep(0.5)  # the engine tells it

    unit, end = await ended(driver, launch)

    assert (unit.id != left, end.exit_code) == (True, 0)
    assert await driver.texts(unit) == ["done\n"]


async def test_a_step_that_is_dropped_before_its_release_never_runs(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = driver.launch("share:ran=yes", attempt=2)
    assert await driver.runtime.start_ahead(launch)
    left = containers(driver.run_id)["step-ahead"]
    entered = asyncio.Event()

    async def wait_forever(_starter: ContainerStarter, _launch: Launch) -> list[Any]:
        entered.set()
        await asyncio.Event().wait()
        return []

    with monkeypatch.context() as patched:
        patched.setattr(ContainerStarter, "_earlier", wait_forever)
        starting = asyncio.create_task(driver.runtime.start(launch))
        await entered.wait()
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)

    await until_state(left, "exited 125")
    unit, _ = await ended(driver, launch)
    assert unit.id != left
