"""Nothing of a shell stays: neither when it is closed, nor when its opener is killed."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.contracts.runtime.conftest import Driver, shell_node
from tests.support import steps
from tests.support.docker_engine import docker
from tests.support.processes import ROOT, until
from tests.support.terminals import terminal
from worker.domain import ownership
from worker.domain.runtime import RuntimeOptions, Unit
from worker.domain.shells import MARK, ShellRequest
from worker.runtimes import runtimes

SLEEPERS = (
    "sleep {} &",
    "(trap '' HUP; sleep {}) &",
    "env -i sleep {} &",
    "(sh -c 'trap \"\" HUP; sleep {} & sleep {}' &)",
)


@dataclass
class Stand:
    """A runtime by name, with what a test sees of it from outside."""

    name: str
    driver: Driver
    folder: Path
    seconds: str = field(default_factory=lambda: str(10**6 + secrets.randbelow(10**6)))

    def sleepers(self, unit: Unit) -> list[str]:
        """Return the sleeping programs of this test in a unit, or anywhere on this host."""
        if self.name == "docker":
            found = docker("top", unit.id, "-eo", "pid,args").splitlines()
        else:
            found = [" ".join(words) for words in map(_words, psutil.process_iter()) if words]
        return [line for line in found if f"sleep {self.seconds}" in line]

    def open_in_a_process(self) -> subprocess.Popen[str]:
        """Start a process that opens a shell in each unit, and return when they are open."""
        opener = subprocess.Popen(
            [sys.executable, "-m", "tests.support.shell_opener",
             self.name, str(self.folder), steps.INSTALLATION, self.seconds],
            stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        assert opener.stdout is not None
        assert opener.stdout.readline() == "open\n"
        return opener


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def marked(shell_id: str) -> list[psutil.Process]:
    """The processes of this host with the mark of a shell; of containers too, where they are."""

    def environment(process: psutil.Process) -> Mapping[str, str]:
        try:
            return dict(process.environ())
        except psutil.Error:
            return {}

    return [each for each in psutil.process_iter() if environment(each).get(MARK) == shell_id]


@pytest.fixture(params=[pytest.param("docker", marks=pytest.mark.docker), "process"])
async def stand(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Stand]:
    options = RuntimeOptions(state_dir=tmp_path, installation_id=steps.INSTALLATION)

    driver = Driver(
        runtime=runtimes[request.param].open(options),
        reopen=lambda: runtimes[request.param].open(options),
        words_to_node=shell_node,
    )
    yield Stand(request.param, driver, tmp_path)
    await driver.runtime.release(driver.run_id, steps.owner())
    await driver.runtime.close()


@asynccontextmanager
async def sleeping(stand: Stand, unit: Unit) -> AsyncGenerator[None]:
    """Open a shell that leaves programs behind, and close it."""
    request = ShellRequest(shell_id=secrets.token_hex(8))
    async with terminal(await stand.driver.runtime.open_shell(unit, request)) as at:
        for line in SLEEPERS:
            await at.type(line.replace("{}", stand.seconds) + "\n")
        await at.type("echo do''ne\n")
        await at.until("done")
        yield
    assert not marked(request.shell_id)


async def gone(condition: Callable[[], object]) -> None:
    await asyncio.to_thread(until, lambda: not condition(), within_s=10, what="it stays")


async def test_closing_leaves_no_program_and_touches_nothing_of_the_service(stand: Stand) -> None:
    unit = await stand.driver.start("serve", node={"kind": "service"})

    async with sleeping(stand, unit):
        await asyncio.to_thread(
            until, lambda: len(stand.sleepers(unit)) >= 5, within_s=10, what="the programs run"
        )

    assert stand.sleepers(unit) == []
    (found,) = await stand.driver.runtime.find(steps.owner())
    assert found.state == "running"


async def test_closing_after_the_exit_leaves_nothing_either(stand: Stand) -> None:
    unit = await stand.driver.start("serve", node={"kind": "service"})

    request = ShellRequest(shell_id=secrets.token_hex(8))
    async with terminal(await stand.driver.runtime.open_shell(unit, request)) as at:
        await at.type(f"(trap '' HUP; sleep {stand.seconds}) & exit 3\n")
        await at.to_the_end()
        assert await at.shell.wait() == 3

    assert stand.sleepers(unit) == []


async def test_a_copy_or_a_folder_is_left_by_all_programs(stand: Stand) -> None:
    unit = await stand.driver.start("out:x")
    await stand.driver.runtime.wait(unit)

    async with sleeping(stand, unit):
        pass

    if stand.name == "docker":
        wanted = f"label={ownership.RUN_ID}={stand.driver.run_id}"
        assert docker("ps", "-aq", "--no-trunc", "--filter", wanted).split() == [unit.id]
        assert docker("images", "-aq", "--filter", wanted) == ""
    else:
        assert stand.sleepers(unit) == []


async def test_after_kill_9_of_the_opener_the_next_process_finds_what_is_left(
    stand: Stand,
) -> None:
    service = await stand.driver.start("serve", node_id="service", node={"kind": "service"})
    ended = await stand.driver.start("out:x", node_id="ended")
    await stand.driver.runtime.wait(ended)
    opener = await asyncio.to_thread(stand.open_in_a_process)
    ids = [f"{step}-{stand.seconds}" for step in ("service", "ended")]
    assert stand.sleepers(service)

    opener.kill()
    opener.communicate(timeout=10)
    successor = stand.driver.again()
    count = await successor.end_shells(steps.owner())

    if stand.name == "docker":
        wanted = f"label={ownership.RUN_ID}={stand.driver.run_id}"
        assert count == 2
        assert set(docker("ps", "-aq", "--no-trunc", "--filter", wanted).split()) == {
            service.id,
            ended.id,
        }
        assert docker("images", "-aq", "--filter", wanted) == ""
    await gone(lambda: stand.sleepers(service))
    await gone(lambda: [each for shell_id in ids for each in marked(shell_id)])
    assert await successor.end_shells(steps.owner()) == 0
    found = {each.id: each.state for each in await successor.find(steps.owner())}
    assert found == {service.id: "running", ended.id: "ended"}
    await successor.close()


async def test_what_this_process_has_open_and_what_others_have_is_left_alone(stand: Stand) -> None:
    unit = await stand.driver.start("serve", node_id="service", node={"kind": "service"})
    ended = await stand.driver.start("out:x", node_id="ended")
    await stand.driver.runtime.wait(ended)
    open_shell = stand.driver.runtime.open_shell

    async with (
        terminal(await open_shell(unit, ShellRequest(shell_id=f"here-{stand.seconds}"))) as one,
        terminal(await open_shell(ended, ShellRequest(shell_id=f"there-{stand.seconds}"))) as two,
    ):
        assert await stand.driver.runtime.end_shells(steps.owner()) == 0
        successor = stand.driver.again()
        assert await successor.end_shells(steps.owner("runner:elsewhere")) == 0
        await successor.close()
        for at in (one, two):
            await at.type('echo "<$TERM>"\n')
            await at.until("<xterm-256color>")
