"""The runtime `process`: child processes in a scratch folder, without isolation.

For machines without a container runtime. A unit outlives the supervisor: its wrapper writes output
and exit code to files, and is found again by its pid and start time.

(reference: control-plane 14.3)
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import psutil

from kernel.agent_protocol import RuntimeResource, StepUsage
from worker.domain import ownership
from worker.domain.cpu_meter import CpuMeter
from worker.domain.evaluation import KILLED, UnitExit
from worker.domain.output_records import FrameReader, OutputRecord
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import (
    STOP_GRACE_S,
    Collected,
    Folders,
    ImageMissing,
    Launch,
    Progress,
    RemovedResources,
    Runtime,
    RuntimeOptions,
    StartFailed,
    Unit,
    UnitLost,
    UnitState,
)
from worker.domain.shells import Shell, ShellRequest
from worker.runtimes.process import artifacts, resources
from worker.runtimes.process.shells import ProcessShells, running_environment
from worker.runtimes.process.units import (
    Consumption,
    UnitFolder,
    fill_workspace,
    is_filled,
    label_run,
    make_empty_workspace,
    remove_unit,
    run_labels,
)

_WRAPPER: Final = str(Path(__file__).with_name("wrapper.py"))
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_READ_SIZE: Final = 256 * 1024
_POLL_INTERVAL_S: Final = 0.05  # between two reads of a file that a process writes
_START_S: Final = 20.0
_TIMED_OUT: Final = 124


class ProcessRuntime(Runtime):
    """Steps as processes of this host."""

    opens_shells = True

    def __init__(self, options: RuntimeOptions) -> None:
        self._root = options.state_dir / "process" / "runs"
        self._installation_id = options.installation_id
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="process-runtime")
        self._cpu = CpuMeter()
        self._shells = ProcessShells()

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def folders(self, *, name: str, workspace: str) -> Folders:
        run = self._root / _run_of(workspace)
        return Folders(
            workspace=str(run / "workspaces" / workspace),
            step=str(run / "units" / name / "step"),
            artifacts=str(run / "units" / name / "artifacts"),
            own_host=True,
        )

    async def prepare(self, launch: Launch, *, pulling: Progress, waiting: Progress) -> None:
        del pulling, waiting
        if not launch.program.argv:
            raise ImageMissing(
                "steps run as processes here, and this one has only an image: start Docker and "
                "restart the runner, or declare file, command or commands"
            )

    async def start(self, launch: Launch) -> Unit:
        folder = UnitFolder(self._root / launch.run_id / "units" / launch.name)
        await self._remove_earlier(launch)
        if not (folder.path / "unit.json").exists():
            content = await launch.workspace.fetch()
            await self._fill(launch, content)
            labels = dict(launch.labels)
            own = content if launch.step_files is None else launch.step_files
            await self._in_thread(folder.make, labels, launch.workspace.name, own)
        if folder.unit().state is UnitState.CREATED:
            await self._spawn(launch, folder)
        return folder.unit()

    async def _fill(self, launch: Launch, content: bytes) -> None:
        """Fill the shared directory once; empty content leaves it to a later step."""
        path = self._root / launch.run_id / "workspaces" / launch.workspace.name
        async with self._locks[launch.workspace.name]:
            if is_filled(path):
                return
            await self._in_thread(label_run, self._root / launch.run_id, launch.run_labels)
            if content:
                await self._in_thread(fill_workspace, path, content)
            else:
                await self._in_thread(make_empty_workspace, path)

    async def _spawn(self, launch: Launch, folder: UnitFolder) -> None:
        environment = {**_base_environment(folder), **launch.environment}
        self._shells.remember(folder, environment)
        order = {"argv": launch.program.argv, "cwd": str(folder.step), "env": environment}
        wrapper = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", _WRAPPER, str(folder.path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            start_new_session=True,  # not ended by Ctrl-C in the terminal of `up`
        )  # fmt: skip
        assert wrapper.stdin is not None
        assert wrapper.stdout is not None
        wrapper.stdin.write(json.dumps(order).encode())
        wrapper.stdin.close()
        async with asyncio.timeout(_START_S):
            answer = (await wrapper.stdout.readline()).decode().strip()
            await wrapper.wait()
        if answer.startswith("failed"):
            _, code, message = answer.split(" ", 2)
            raise StartFailed(message, int(code))

    async def _remove_earlier(self, launch: Launch) -> None:
        for folder in self._units(launch.run_id):
            labels = folder.labels
            if (
                labels[ownership.STEP] == launch.step_id
                and int(labels[ownership.ATTEMPT]) < launch.attempt
            ):
                await self.remove(folder.unit())

    async def output(self, unit: Unit, *, after: int = 0) -> AsyncGenerator[Sequence[OutputRecord]]:
        folder, frames = _existing(unit), FrameReader(after)
        folder.output.touch()  # its wrapper may be about to
        with folder.output.open("rb", buffering=0) as file:
            while True:
                ended = folder.unit().state is not UnitState.RUNNING  # asked before the read
                data = file.read(_READ_SIZE)
                if records := frames.feed(data):
                    yield records
                if not data and ended:
                    return
                if not data:
                    await asyncio.sleep(_POLL_INTERVAL_S)

    async def wait(self, unit: Unit) -> UnitExit:
        folder = _existing(unit)
        while folder.unit().state is UnitState.RUNNING:
            await _wait_gone(folder)
        code = folder.exit_code()
        return UnitExit(exit_code=KILLED if code is None else code)

    async def stop(self, unit: Unit, *, grace_s: float = STOP_GRACE_S) -> None:
        folder = _existing(unit)
        if wrapper := folder.wrapper():
            with contextlib.suppress(psutil.NoSuchProcess):
                wrapper.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await self.wait(unit)
        except TimeoutError:
            await self._in_thread(folder.kill)
            await self.wait(unit)

    async def remove(self, unit: Unit) -> None:
        if ownership.is_owned(unit.labels, self._installation_id):
            await self._remove(UnitFolder(Path(unit.id)))

    async def _remove(self, folder: UnitFolder) -> None:
        self._shells.forget(folder)
        await self._in_thread(remove_unit, folder)

    async def run_inside(self, unit: Unit, argv: Sequence[str], *, timeout_s: float) -> int:
        folder = _existing(unit)
        environment = await self._in_thread(running_environment, folder) or {"PATH": _PATH}
        try:
            program = await asyncio.create_subprocess_exec(
                *argv,
                cwd=folder.step,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            return 127
        try:
            async with asyncio.timeout(timeout_s):
                return await program.wait()
        except TimeoutError:
            program.kill()
            await program.wait()
            return _TIMED_OUT

    async def endpoint(self, unit: Unit, port: int) -> tuple[str, int] | None:
        """Return None until a process of this step listens: another program may use the port."""
        listens = await self._in_thread(_listens, _existing(unit), port)
        return ("127.0.0.1", port) if listens else None

    async def is_healthy(self, unit: Unit) -> bool:
        return _existing(unit).unit().state is UnitState.RUNNING

    async def usage(self, unit: Unit) -> StepUsage | None:
        used: Consumption | None = await self._in_thread(UnitFolder(Path(unit.id)).consumption)
        if used is None:
            return None
        return StepUsage(
            cpu_percent=self._cpu.percent(unit, at=time.time(), cpu_s=used.cpu_s),
            memory_bytes=used.memory_bytes,
        )

    async def collect(self, unit: Unit, pattern: str) -> Collected:
        found: Collected = await self._in_thread(artifacts.collect, _existing(unit), pattern)
        return found

    async def find(self, owner: UnitOwner) -> Sequence[Unit]:
        return [folder.unit() for folder in self._units() if _is_of(folder.labels, owner)]

    async def runs(self, owner: UnitOwner) -> frozenset[str]:
        return frozenset(run.name for run in self._root.glob("*") if _is_of(run_labels(run), owner))

    async def list_resources(self) -> Sequence[RuntimeResource]:
        found: list[RuntimeResource] = await self._in_thread(
            resources.list_all, self._root, self._installation_id
        )
        return found

    async def look_at(self, resource: RuntimeResource) -> RuntimeResource | None:
        found: RuntimeResource | None = await self._in_thread(
            resources.look_at, self._root, resource
        )
        return found

    async def remove_resource(self, resource: RuntimeResource) -> bool:
        self._shells.forget(UnitFolder(Path(resource.id)))
        is_gone: bool = await self._in_thread(
            resources.remove, self._root, resource, self._installation_id
        )
        return is_gone

    async def release(self, run_id: str, owner: UnitOwner) -> RemovedResources:
        run = self._root / run_id
        if not ownership.is_owned(run_labels(run), owner.installation_id):
            return RemovedResources()
        units = self._units(run_id)
        for folder in units:
            await self._remove(folder)
        workspaces = len(list(run.glob("workspaces/*")))
        await self._in_thread(lambda: shutil.rmtree(run, ignore_errors=True))
        return RemovedResources(containers=len(units), volumes=workspaces)

    async def open_shell(self, unit: Unit, request: ShellRequest) -> Shell:
        folder = _existing(unit)
        return await self._shells.open(folder, request, base=_base_environment(folder))

    async def end_shells(self, owner: UnitOwner) -> int:
        folders = [folder for folder in self._units() if _is_of(folder.labels, owner)]
        ended = [await self._in_thread(self._shells.end_earlier, folder) for folder in folders]
        return sum(ended)

    def _units(self, run_id: str = "*") -> list[UnitFolder]:
        """Return the folders of units that exist now."""
        runs = sorted(self._root.glob(run_id))
        found = [UnitFolder(path) for run in runs for path in _entries(run / "units")]
        return [folder for folder in found if folder.is_there()]


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _run_of(workspace: str) -> str:
    """`run-3f9a0c1be77d` of `partita-ws-run-3f9a0c1be77d-pay`."""
    return "-".join(workspace.split("-")[2:4])


def _is_of(labels: Mapping[str, str], owner: UnitOwner) -> bool:
    return (
        ownership.is_owned(labels, owner.installation_id)
        and labels.get(ownership.ORCHESTRATOR) == owner.orchestrator_id
    )


def _base_environment(folder: UnitFolder) -> dict[str, str]:
    home = str(folder.path / "home")
    return {"PATH": _PATH, "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8"}


def _existing(unit: Unit) -> UnitFolder:
    folder = UnitFolder(Path(unit.id))
    if not (folder.path / "unit.json").exists():
        raise UnitLost(f"the folder of {unit.name} is gone")
    return folder


def _listens(folder: UnitFolder, port: int) -> bool:
    for process in folder.members():
        with contextlib.suppress(psutil.Error):
            for connection in process.net_connections("tcp"):
                if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
                    return True
    return False


async def _wait_gone(folder: UnitFolder) -> None:
    """Wait until the wrapper ends."""
    wrapper = folder.wrapper()
    if wrapper is None:
        return
    try:
        descriptor = os.pidfd_open(wrapper.pid)
    except ProcessLookupError:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
