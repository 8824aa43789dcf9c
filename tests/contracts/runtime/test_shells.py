"""What every runtime with shells promises (worker/domain/shells.py)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.contracts.runtime.conftest import Driver, LocalClusterDriver
from tests.support import steps
from tests.support.terminals import Terminal, terminal
from worker.domain.runtime import ShellUnavailable, Unit, UnitLost, UnitState
from worker.domain.shells import READ_LIMIT, ShellRequest

LINES = 1_300_000  # of `seq`: 10 MB with CR LF


@pytest.fixture(autouse=True)
def needs_shells(driver: Driver) -> None:
    if not driver.runtime.opens_shells:
        pytest.skip("this runtime opens no shells")
    if isinstance(driver, LocalClusterDriver):
        pytest.skip("the cluster of these tests has no terminals: see the lane of a real one")


@asynccontextmanager
async def opened(
    driver: Driver, unit: Unit, *command: str, **changes: Any
) -> AsyncGenerator[Terminal]:
    request = ShellRequest(shell_id=secrets.token_hex(8), command=command, **changes)
    async with terminal(await driver.runtime.open_shell(unit, request)) as at:
        yield at


async def service(driver: Driver, *words: str, **changes: Any) -> Unit:
    return await driver.start(*words, "serve", node={"kind": "service"}, **changes)


async def ended(driver: Driver, *words: str, **changes: Any) -> Unit:
    unit = await driver.start(*words, **changes)
    await driver.runtime.wait(unit)
    return unit


async def test_a_shell_in_a_service_has_its_variables(driver: Driver) -> None:
    unit = await service(driver, env={"GREETING": "hello"})

    async with opened(driver, unit) as at:
        await at.type('echo "<$GREETING $TERM>"\n')

        assert "<hello xterm-256color>" in await at.until("<hello xterm-256color>")


async def test_a_shell_starts_where_the_step_did(driver: Driver) -> None:
    unit = await service(driver, "drop:note.txt=left by the step", "out:ready")
    await anext(aiter(driver.runtime.output(unit)))

    async with opened(driver, unit) as at:
        await at.type("cat note.txt\n")

        await at.until("left by the step")


async def test_a_shell_in_an_ended_step_sees_its_files_as_it_left_them(driver: Driver) -> None:
    unit = await ended(driver, "drop:note.txt=precious", "exit:3", env={"GREETING": "hello"})

    async with opened(driver, unit) as at:
        await at.type("cat note.txt\n")
        await at.until("precious")
        await at.type('echo "<$GREETING>"\n')
        await at.until("<hello>")

    found = {each.id: each for each in await driver.runtime.find(steps.owner())}
    assert set(found) == {unit.id}  # the copy is not taken for a unit
    assert found[unit.id].state is UnitState.ENDED
    assert (await driver.runtime.wait(unit)).exit_code == 3


async def test_a_shell_sees_the_shared_directory_and_the_artifacts(driver: Driver) -> None:
    unit = await ended(driver, "write:report.xml=kept", "share:shared.txt=for all")
    folders = driver.runtime.folders(name=unit.name, workspace=driver.launch().workspace.name)

    async with opened(driver, unit) as at:
        await at.type(f"cat {folders.artifacts}/report.xml\n")
        await at.until("kept")
        await at.type(f"cat {folders.workspace}/shared.txt\n")
        await at.until("for all")


async def test_the_size_of_the_window_reaches_the_program(driver: Driver) -> None:
    unit = await service(driver)

    async with opened(driver, unit, columns=101, rows=33) as at:
        await at.type("stty size\n")
        await at.until("33 101")
        await at.shell.resize(columns=77, rows=22)
        await at.type("stty size\n")
        await at.until("22 77")


@pytest.mark.parametrize(("columns", "rows"), [(0, 24), (80, -1), (80, 10**6)])
async def test_a_size_that_no_terminal_has_is_refused(
    driver: Driver, columns: int, rows: int
) -> None:
    unit = await service(driver)

    with pytest.raises(ValueError, match="columns and rows"):
        ShellRequest(shell_id="x", columns=columns, rows=rows)
    async with opened(driver, unit) as at:
        with pytest.raises(ValueError, match="columns and rows"):
            await at.shell.resize(columns=columns, rows=rows)


@pytest.mark.parametrize("shell_id", ["", "../x", "a b", "x" * 65])
def test_an_id_that_cannot_be_a_file_or_a_label_is_refused(shell_id: str) -> None:
    with pytest.raises(ValueError, match="the id of a shell"):
        ShellRequest(shell_id=shell_id)


async def test_control_c_ends_the_program_in_the_foreground_and_not_the_service(
    driver: Driver,
) -> None:
    unit = await service(driver)

    async with opened(driver, unit) as at:
        await at.type("sleep 600\n")
        await asyncio.sleep(0.5)
        await at.type("\x03")
        await at.type('echo "<$TERM>"\n')
        await at.until("<xterm-256color>")

    (found,) = await driver.runtime.find(steps.owner())
    assert found.state is UnitState.RUNNING


async def test_the_exit_code_is_that_of_the_shell(driver: Driver) -> None:
    unit = await service(driver)

    async with opened(driver, unit) as at:
        await at.type("exit 7\n")
        await at.to_the_end()

        assert await at.shell.wait() == 7


async def test_a_command_is_run_without_a_shell(driver: Driver) -> None:
    in_service = await service(driver, node_id="service")
    in_ended = await ended(driver, "out:x", node_id="ended")

    for unit in (in_service, in_ended):
        async with opened(driver, unit, "echo", "one;two") as at:
            assert await at.to_the_end() == "one;two\n"
            assert await at.shell.wait() == 0


async def test_a_program_that_does_not_exist_is_named(driver: Driver) -> None:
    """When the shell is opened, or on its terminal."""
    in_service = await service(driver, node_id="service")
    in_ended = await ended(driver, "out:x", node_id="ended")

    for unit in (in_service, in_ended):
        try:
            async with opened(driver, unit, "/no/such/program") as at:
                text, code = await at.to_the_end(), await at.shell.wait()
        except ShellUnavailable as error:
            text, code = str(error), 127
        assert "/no/such/program" in text
        assert code in (126, 127)


async def test_two_shells_at_once_do_not_share_a_terminal(driver: Driver) -> None:
    unit = await service(driver)

    async with opened(driver, unit) as one, opened(driver, unit) as two:
        await one.type('echo "<$PARTITA_SHELL>"\n')
        await one.until("<")
        await two.type('echo "two $TERM"\n')
        await two.until("two xterm-256color")
        await one.type('echo "one $TERM"\n')
        await one.until("one xterm-256color")
        assert "one xterm" not in two.seen


async def test_closing_ends_a_shell_whatever_runs_in_it(driver: Driver) -> None:
    unit = await service(driver)

    async with opened(driver, unit) as at:
        await at.type("sleep 600\n")
        await asyncio.sleep(0.3)
        reading = asyncio.create_task(at.to_the_end())
        await at.shell.close()
        await at.shell.close()

        await reading
        assert await at.shell.wait() != 0
        assert await at.shell.read() == b""
        await at.type("echo after the end\n")
        await at.shell.resize(columns=80, rows=24)


async def test_a_shell_ends_with_its_unit(driver: Driver) -> None:
    unit = await service(driver)

    async with opened(driver, unit) as at:
        await at.type('echo "<$TERM>"\n')
        await at.until("<xterm")
        await driver.runtime.stop(unit, grace_s=0)

        await at.to_the_end()
        assert await at.shell.wait() != 0


async def test_a_shell_ends_when_its_run_is_released(driver: Driver) -> None:
    unit = await ended(driver, "out:x")

    async with opened(driver, unit, "sleep", "600") as at:
        removed = await driver.runtime.release(driver.run_id, steps.owner())

        await at.to_the_end()
        assert removed.leftovers == ()


async def test_there_is_no_shell_in_a_unit_that_is_gone(driver: Driver) -> None:
    unit = await service(driver)
    await driver.runtime.remove(unit)

    with pytest.raises(UnitLost):
        async with opened(driver, unit):
            pass


async def test_a_large_output_arrives_whole_and_in_small_parts(driver: Driver) -> None:
    unit = await service(driver)
    read, last, longest = 0, b"", 0

    async with opened(driver, unit, "seq", "1", str(LINES)) as at, asyncio.timeout(60):
        while data := await at.shell.read():
            read, longest, last = read + len(data), max(longest, len(data)), (last + data)[-64:]

    expected = sum(len(f"{number}\r\n") for number in range(1, LINES + 1))
    assert read == expected
    assert expected > 10_000_000
    assert last.endswith(f"{LINES - 1}\r\n{LINES}\r\n".encode())
    assert longest <= READ_LIMIT


async def test_a_slow_reader_loses_nothing(driver: Driver) -> None:
    unit = await service(driver)
    parts: list[bytes] = []

    async with opened(driver, unit, "seq", "1", "200000") as at, asyncio.timeout(60):
        await asyncio.sleep(1)
        while data := await at.shell.read():
            parts.append(data)
            if len(parts) < 20:  # a part may be one line only
                await asyncio.sleep(0.05)

    assert b"".join(parts) == "".join(f"{number}\r\n" for number in range(1, 200_001)).encode()
