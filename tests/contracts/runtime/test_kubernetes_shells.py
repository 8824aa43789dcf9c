"""Shells on a real cluster: in steps whose image has no `sh`, and beside a busy API server.

(guide: kubernetes, shells)
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
from typing import Any

import pytest

from tests.contracts.runtime.conftest import Driver
from tests.contracts.runtime.test_kubernetes_cluster import driver, pending_s
from tests.support import steps
from tests.support.cluster_commands import kubectl
from tests.support.kubernetes.components import find_component
from tests.support.kubernetes.config_files import PAUSE_IMAGE
from tests.support.terminals import terminal
from worker.domain.runtime import ImageMissing, Unit, UnitState
from worker.domain.shells import ShellRequest
from worker.runtimes.kubernetes.pod_shells import HELPER_NOTICE

__all__ = ["driver", "pending_s"]  # fixtures
pytestmark = [pytest.mark.cluster, pytest.mark.slow]
# of one static program, which waits, or with this argument says its version and ends
IMAGE = PAUSE_IMAGE.removeprefix("docker.io/")
SAY_VERSION = ["-v"]
STANDSTILL_S = 45  # longer than the 40 s after which a WebSocket's client gives up by default


async def start(driver: Driver, **node: Any) -> Unit:
    """Start a step of the image without `sh`; on a cluster whose nodes lack it, skip."""
    body = steps.claim(driver.run_id, "bare", node={"image": IMAGE, **node}, env={"GREETING": "hi"})
    try:
        return await driver.runtime.start(driver.launch_of(body))
    except ImageMissing:
        pytest.skip(f"needs the image {IMAGE} on the nodes of the cluster")


async def use_shell(driver: Driver, unit: Unit) -> None:
    """Open a shell, look at the step's variables and files in it, and leave with its code."""
    request = ShellRequest(shell_id=secrets.token_hex(8))
    async with terminal(await driver.runtime.open_shell(unit, request)) as at:
        assert at.shell.notice == HELPER_NOTICE
        await at.type('echo "<$GREETING>"; ls $PARTITA_WORKSPACE_DIR/tasks\n')
        await at.until("<hi>")
        await at.until("hello.sh")
        await at.type("exit 7\n")
        await at.to_the_end()
        assert await at.shell.wait() == 7


async def test_a_running_step_is_seen_from_a_container_of_the_helper_image(driver: Driver) -> None:
    unit = await start(driver, kind="service")
    request = ShellRequest(shell_id=secrets.token_hex(8))

    async with terminal(await driver.runtime.open_shell(unit, request)) as at:
        await at.type("cat /proc/[0-9]*/cmdline | tr '\\0' ' '; echo; echo se''en\n")
        assert "/pause" in await at.until("seen\n")
    await use_shell(driver, unit)

    (found,) = await driver.runtime.find(steps.owner())
    assert found.state is UnitState.RUNNING


async def test_an_ended_step_is_seen_from_a_container_of_the_helper_image(driver: Driver) -> None:
    unit = await start(driver, command=SAY_VERSION)
    assert (await driver.runtime.wait(unit)).exit_code == 0

    await use_shell(driver, unit)

    (found,) = await driver.runtime.find(steps.owner())
    assert found.state is UnitState.ENDED


async def test_the_container_of_a_closed_shell_has_ended(driver: Driver) -> None:
    unit = await start(driver, kind="service")
    request = ShellRequest(shell_id=secrets.token_hex(8), command=("sleep", "600"))

    async with terminal(await driver.runtime.open_shell(unit, request)):
        pass

    words = ("wait", "pod", unit.name, "--timeout=60s")
    kubectl(*words, "--for=jsonpath={.status.ephemeralContainerStatuses[0].state.terminated}")
    pod = json.loads(kubectl("get", "pod", unit.name, "-o", "json"))
    assert len(pod["spec"]["ephemeralContainers"]) == 1


async def test_a_shell_outlives_an_api_server_that_stands_still(driver: Driver) -> None:
    unit = await driver.start("serve", node={"kind": "service"})
    request = ShellRequest(shell_id=secrets.token_hex(8))

    async with terminal(await driver.runtime.open_shell(unit, request)) as at:
        await at.type("echo fir''st\n")
        await at.until("first")
        pid = find_component("apiserver").pid
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(STANDSTILL_S)
        finally:
            os.kill(pid, signal.SIGCONT)
        await at.type("echo sec''ond\n")
        await at.until("second", within_s=60)
