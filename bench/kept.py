"""`python -m bench kept [--quick]`: how long until somebody is inside a kept environment?

Part "shell": the time from `open_shell` to the first prompt, in the container of a service that
runs and in a copy of a step that has ended, beside the same by the `docker` program: `docker exec`,
and `docker commit` with `docker run`. All on one engine, one after another, each as often.
"""

from __future__ import annotations

import asyncio
import os
import pty
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.report import end_in_order, is_quick, publish
from worker.domain.launch import LaunchRules, launch_of
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import Launch, RuntimeOptions, Unit
from worker.domain.shells import Shell, ShellRequest
from worker.domain.step_spec import parse_step_spec
from worker.runtimes.docker.runtime import DockerRuntime

TURNS: Final = 3 if is_quick() else 20
GOAL_S: Final = 3.0
IMAGE: Final = "busybox:1.36"
PROMPT: Final = b"# "
OWNER: Final = UnitOwner(
    installation_id=f"bench-{secrets.token_hex(4)}", orchestrator_id="runner:bench", host_id="bench"
)
Row = tuple[str, float, float]


class KeptRun:
    """A run with a service and a step that has ended, as a failure leaves them."""

    def __init__(self, runtime: DockerRuntime) -> None:
        self.runtime = runtime
        self.run_id = f"run-{secrets.token_hex(6)}"

    def launch(self, step_id: str, **node: object) -> Launch:
        body = {
            "jobId": f"job_{self.run_id}-{step_id}",
            "attempt": 1,
            "executionId": self.run_id,
            "suiteId": "shop",
            "workspaceId": "bench",
            "installationId": OWNER.installation_id,
            "backendId": "local-docker",
            "leaseMs": 30_000,
            "timeoutMs": 60_000,
            "env": {},
            "node": {"id": step_id, "name": step_id, "image": IMAGE, **node},
        }
        return launch_of(
            parse_step_spec(body),
            LaunchRules(),
            OWNER,
            folders=lambda name, workspace: self.runtime.folders(name=name, workspace=workspace),
            fetch=_no_files,
            started_at="2026-11-27T10:00:00.000Z",
        )

    async def service(self) -> Unit:
        launch = self.launch("store", kind="service", commands=["while :; do sleep 1; done"])
        return await self.runtime.start(launch)

    async def failed_step(self) -> Unit:
        """A step that wrote 20 MB before it failed."""
        commands = ["head -c 20000000 /dev/urandom > /tmp/data", "exit 1"]
        unit = await self.runtime.start(self.launch("seed", kind="task", commands=commands))
        await self.runtime.wait(unit)
        return unit


async def _no_files() -> bytes:
    return b""


async def measure_shell(runtime: DockerRuntime, unit: Unit) -> list[float]:
    """Return the seconds until the first prompt of each turn, after one turn more."""
    seconds = []
    for turn in range(TURNS + 1):
        began = time.perf_counter()
        shell = await runtime.open_shell(unit, ShellRequest(shell_id=secrets.token_hex(8)))
        await _read_prompt(shell)
        if turn:
            seconds.append(time.perf_counter() - began)
        await shell.close()
    return seconds


async def _read_prompt(shell: Shell) -> None:
    seen = b""
    while PROMPT not in seen:
        data = await shell.read()
        assert data, f"the shell ended without a prompt: {seen!r}"
        seen += data


class DockerProgram:
    """The floor: the program `docker` on a terminal of its own."""

    def __init__(self, host: str) -> None:
        self._docker = ["docker", "-H", host]

    def measure_exec(self, unit: Unit) -> list[float]:
        return [self._seconds([], ["exec", "-it", unit.id, "sh"]) for _ in range(TURNS + 1)][1:]

    def measure_copy(self, unit: Unit, network: str) -> list[float]:
        """`docker commit`, then `docker run` on the run's network; removed outside of the time."""
        image, seconds = f"partita-bench:{secrets.token_hex(4)}", []
        run = ["run", "--rm", "-it", "--init", "--network", network, "--entrypoint", "sh", image]
        for _ in range(TURNS + 1):
            seconds.append(self._seconds(["commit", "--pause=false", unit.id, image], run))
            subprocess.run([*self._docker, "rmi", image], check=True, capture_output=True)
        return seconds[1:]

    def _seconds(self, before: Sequence[str], command: Sequence[str]) -> float:
        """Return the seconds until the prompt of a command, with what runs before it."""
        began = time.perf_counter()
        if before:
            subprocess.run([*self._docker, *before], check=True, capture_output=True)
        pid, terminal = pty.fork()
        if not pid:
            os.execvp(self._docker[0], [*self._docker, *command])
        seen = b""
        while PROMPT not in seen:
            seen += os.read(terminal, 4096)
        seconds = time.perf_counter() - began
        os.write(terminal, b"exit\n")
        os.waitpid(pid, 0)
        os.close(terminal)
        return seconds


async def measure_shells(host: str, folder: Path) -> list[Row]:
    runtime = DockerRuntime(
        RuntimeOptions(state_dir=folder, installation_id=OWNER.installation_id, address=host)
    )
    kept, program = KeptRun(runtime), DockerProgram(host)
    try:
        service, failed = await kept.service(), await kept.failed_step()
        network = next(iter(kept.launch("seed", kind="task", commands=["true"]).networks))
        times = {
            "`docker exec` in a service (floor)": program.measure_exec(service),
            "shell in a service": await measure_shell(runtime, service),
            "`docker commit` and `docker run` (floor)": program.measure_copy(failed, network),
            "shell in a step that has ended": await measure_shell(runtime, failed),
        }
    finally:
        await runtime.release(kept.run_id, OWNER)
        await runtime.close()
    return [(what, statistics.median(each), max(each)) for what, each in times.items()]


def main() -> None:
    end_in_order()
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as name:
        shells = asyncio.run(measure_shells(host, Path(name)))
    slowest_s = max(median for what, median, _ in shells if "floor" not in what)
    is_met = slowest_s <= GOAL_S
    publish(
        "kept",
        "How long from the wish to the first prompt in a kept environment: in a service that runs, "
        "and in a step that has ended and wrote 20 MB? The floor is the program `docker`, which "
        "keeps no variables, volumes, limits or directory, and finds nothing again after a crash. "
        f"Seconds, {TURNS} turns.",
        ("what", "median s", "most s"),
        shells,
        f"A prompt takes at most {slowest_s:.2f} s (median; goal: {GOAL_S:g} s): "
        f"{'met' if is_met else 'NOT met'}.",
    )
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
