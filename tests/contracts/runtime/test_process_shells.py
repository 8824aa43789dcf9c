"""Shells that are processes of this host."""

from __future__ import annotations

import getpass
import os
import secrets
import signal
import socket
from collections.abc import AsyncGenerator
from pathlib import Path

import psutil
import pytest

from tests.contracts.runtime.conftest import Driver, plugin_driver
from tests.support.terminals import terminal
from worker.domain.shells import MARK, ShellRequest
from worker.runtimes.process.units import claiming_process


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncGenerator[Driver]:
    made = plugin_driver("process")(tmp_path)
    yield made
    await made.close()


async def test_the_notice_says_that_nothing_is_isolated_and_who_the_user_is(
    driver: Driver,
) -> None:
    unit = await driver.start("serve")

    async with terminal(await driver.runtime.open_shell(unit, ShellRequest(shell_id="a"))) as at:
        assert "Not isolated" in at.shell.notice
        assert socket.gethostname() in at.shell.notice
        assert getpass.getuser() in at.shell.notice


async def test_after_a_restart_the_variables_of_an_ended_step_are_missing_unless_given(
    driver: Driver, tmp_path: Path
) -> None:
    """Invariant 19: they may be secrets, so they are on no disk."""
    unit = await driver.start("out:x", env={"GREETING": "a secret of the step"})
    await driver.runtime.wait(unit)
    successor = driver.again()
    given = ShellRequest(shell_id="given", environment={"GREETING": "given"})

    async with terminal(await successor.open_shell(unit, ShellRequest(shell_id="bare"))) as at:
        await at.type('echo "<$GREETING>"; pwd\n')
        await at.until("<>")
        assert "variables of the step are missing" in at.shell.notice
    async with terminal(await successor.open_shell(unit, given)) as at:
        await at.type('echo "<$GREETING>"\n')
        await at.until("<given>")
        assert "missing" not in at.shell.notice

    await successor.close()
    stored = contents(tmp_path)
    assert stored
    assert not [body for body in stored if b"a secret of the step" in body]


async def test_after_a_restart_the_variables_of_a_service_are_those_of_its_program(
    driver: Driver,
) -> None:
    unit = await driver.start("serve", env={"GREETING": "hello"})
    successor = driver.again()

    async with terminal(await successor.open_shell(unit, ShellRequest(shell_id="a"))) as at:
        await at.type('echo "<$GREETING>"\n')
        await at.until("<hello>")
    await successor.close()


async def test_what_is_left_when_the_parent_of_a_shell_is_killed_ends_with_close(
    driver: Driver,
) -> None:
    unit = await driver.start("serve")
    shell_id = secrets.token_hex(8)
    shell = await driver.runtime.open_shell(unit, ShellRequest(shell_id=shell_id))
    async with terminal(shell) as at:
        await at.type("trap '' HUP; sleep 6543 & echo st''arted\n")
        await at.until("started")
        parent = claiming_process(Path(unit.id) / "shells" / shell_id)
        assert parent is not None
        os.kill(parent.pid, signal.SIGKILL)

    marked = [each for each in psutil.process_iter() if _mark(each) == shell_id]
    assert marked == []


def contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


def _mark(process: psutil.Process) -> str:
    try:
        return str(process.environ().get(MARK, ""))
    except psutil.Error:
        return ""
