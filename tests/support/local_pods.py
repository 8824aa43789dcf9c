"""A small kubelet: the containers of a pod as processes of this host, in a folder of the pod.

Paths under /partita are replaced by those of the folder, in commands, variables and archives. The
programs that the keeper runs to find the step's processes are acted for: there are no cgroups here.
So is the busybox of the helper image, by bash and the programs of this host.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import signal
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from worker.runtimes.kubernetes import keeper
from worker.runtimes.kubernetes.objects import FILLER, KEEPER, STEP_CONTAINER

Object = dict[str, Any]
_PATH: Final = re.compile(r"(?<![\w./-])/partita(?![\w.-])")
_FOLDERS: Final = ("step", "artifacts", "workspace", "marks", "archive")
_LINE: Final = 2**20
_BUSYBOX: Final = """#!/usr/bin/perl
exit 0 unless @ARGV;
$ARGV[0] = "bash" if $ARGV[0] eq "sh";
exec @ARGV;
"""
_CANNOT_START: Final = 128


def now_text() -> str:
    """The time as Kubernetes writes it in objects: in whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ContainerLog:
    """The lines of a container with their times, of both streams in the order of reading."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, bytes]] = []
        self.is_over = False
        self._grown = asyncio.Event()
        self._last_ns = 0

    def add(self, line: bytes) -> None:
        self._last_ns = max(time.time_ns(), self._last_ns)
        seconds, rest = divmod(self._last_ns, 10**9)
        stamp = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        self.lines.append((f"{stamp}.{rest:09}Z", line))
        self._wake()

    def end(self) -> None:
        self.is_over = True
        self._wake()

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()

    async def read(self, *, since: str, follow: bool) -> AsyncGenerator[bytes]:
        """Yield the lines that are not older than `since`, with their times."""
        position = 0
        while True:
            grown, is_over = self._grown, self.is_over
            for stamp, line in self.lines[position:]:
                position += 1
                if stamp >= since.removesuffix("Z"):
                    yield f"{stamp} ".encode() + line
            if is_over or not follow:
                return
            await grown.wait()


class LocalPod:
    """Runs a pod's containers; `changed` is called with each new status."""

    def __init__(
        self,
        body: Object,
        root: Path,
        secret: Callable[[str], Mapping[str, bytes]],
        changed: Callable[[Object], None],
        *,
        image_variables: Mapping[str, str],
    ) -> None:
        self.log = ContainerLog()
        self._spec = body["spec"]
        name = body["metadata"]["name"]
        before = len(list(root.glob(f"{name}*")))  # a pod may take the name of a deleted one
        self._root = root / f"{name}{before or ''}"
        self._secret = secret
        self._changed = changed
        self._image_variables = image_variables
        self._states: dict[str, Object] = {}
        self._step: asyncio.subprocess.Process | None = None
        self._stdin: asyncio.StreamWriter | None = None
        self.step_ended = asyncio.Event()
        self._running: set[asyncio.subprocess.Process] = set()
        self._task = asyncio.create_task(self._run(), name=body["metadata"]["name"])

    async def delete(self) -> None:
        """Kill all that runs, as a deletion without grace does."""
        self._task.cancel()
        for process in tuple(self._running):
            _kill(process)
        await asyncio.gather(self._task, return_exceptions=True)
        self.log.end()

    async def _run(self) -> None:
        self._make_folders()
        filler = self._spec["initContainers"][0]
        self._set(filler["name"], {"running": {"startedAt": now_text()}})
        process = await self._spawn(self._words(filler["command"]), {})
        self._set(filler["name"], {"terminated": {"exitCode": await self._end_of(process)}})
        self._set(KEEPER, {"running": {"startedAt": now_text()}})
        await self._run_step()

    def _make_folders(self) -> None:
        (self._root / "bin").mkdir(parents=True)
        busybox = self._root / "bin" / "busybox"
        busybox.write_text(_BUSYBOX)
        busybox.chmod(0o755)
        has_tools = any(each["name"] == "tools" for each in self._spec["volumes"])
        for name in (*_FOLDERS, *(("tools",) if has_tools else ())):
            (self._root / "partita" / name).mkdir(parents=True)
        for volume in self._spec["volumes"]:
            if "secret" in volume:
                for key, value in self._secret(volume["secret"]["secretName"]).items():
                    (self._root / "partita" / volume["name"] / key).write_bytes(value)

    async def _run_step(self) -> None:
        container = next(each for each in self._spec["containers"] if each["name"] != KEEPER)
        argv = self._words([*container.get("command", ()), *container.get("args", ())])
        began = now_text()
        try:
            stdin = (
                asyncio.subprocess.PIPE if container.get("stdin") else asyncio.subprocess.DEVNULL
            )
            process = await self._spawn(argv, self._variables(), self._cwd(container), stdin=stdin)
        except OSError as error:
            words = f'exec: "{argv[0]}": stat {argv[0]}: {os.strerror(error.errno or 0).lower()}'
            ended = {"exitCode": _CANNOT_START, "reason": "StartError", "message": words}
            self._end_step({**ended, "startedAt": began})
            return
        self._step, self._stdin = process, process.stdin
        self._set(STEP_CONTAINER, {"running": {"startedAt": began}})
        readers = [self._read(stream) for stream in (process.stdout, process.stderr) if stream]
        reading = asyncio.gather(*readers)
        code = await self._end_of(process)
        await reading
        reason = "Completed" if code == 0 else "Error"
        ended = {"exitCode": code, "reason": reason, "startedAt": began}
        self._end_step({**ended, "message": self._termination_message()})

    def _termination_message(self) -> str:
        path = self._root / "termination-log"
        return path.read_text() if path.exists() else ""

    def take_stdin(self) -> asyncio.StreamWriter | None:
        """Return the stdin of the step, for one client; None if it runs not or was taken."""
        stdin, self._stdin = self._stdin, None
        return stdin

    def _end_step(self, ended: Object) -> None:
        self._step = self._stdin = None
        self.step_ended.set()
        self._set(STEP_CONTAINER, {"terminated": {**ended, "finishedAt": now_text()}})
        self.log.end()

    async def _read(self, stream: asyncio.StreamReader) -> None:
        async for line in stream:
            self.log.add(line)

    async def _end_of(self, process: asyncio.subprocess.Process) -> int:
        """Return the exit code as a container's; what the program left behind ends with it."""
        try:
            code = await process.wait()
        finally:
            _kill(process)
            self._running.discard(process)
        return 128 - code if code < 0 else code

    def _set(self, container: str, state: Object) -> None:
        self._states[container] = state
        known = [{"name": name, "state": each} for name, each in self._states.items()]
        self._changed(
            {
                "phase": "Running" if STEP_CONTAINER in self._states else "Pending",
                "podIP": "127.0.0.1",
                "initContainerStatuses": [each for each in known if each["name"] == FILLER],
                "containerStatuses": [each for each in known if each["name"] != FILLER],
            }
        )

    def _words(self, words: Sequence[str]) -> list[str]:
        """The words with this pod's folder, and with one dollar for two, as a kubelet does it."""
        return [self._local(word.replace("$$", "$")) for word in words]

    def _local(self, text: str) -> str:
        found = _PATH.sub(f"{self._root}/partita", text)
        found = found.replace(" /bin/busybox ", f" {self._root}/bin/busybox ")
        found = found.replace("/dev/termination-log", f"{self._root}/termination-log")
        return found.replace(" -C / ", f" -C {self._root} ")

    def _cwd(self, container: Object) -> str:
        return self._local(container.get("workingDir", "/"))

    def _variables(self) -> dict[str, str]:
        container = next(each for each in self._spec["containers"] if each["name"] != KEEPER)
        found = dict(self._image_variables)
        for source in container["envFrom"]:
            values = self._secret(source["secretRef"]["name"])
            found |= {key: self._local(value.decode()) for key, value in values.items()}
        return found

    async def _spawn(
        self, argv: Sequence[str], variables: Mapping[str, str], cwd: str = "/", **options: Any
    ) -> asyncio.subprocess.Process:
        pipes = dict.fromkeys(("stdout", "stderr"), asyncio.subprocess.PIPE)
        process = await asyncio.create_subprocess_exec(
            *argv,
            env={"PATH": os.environ["PATH"], **variables},
            cwd=cwd,
            start_new_session=True,
            limit=_LINE,
            **{"stdin": asyncio.subprocess.DEVNULL, **pipes, **options},
        )
        self._running.add(process)
        return process

    # Programs in its containers

    def has_running(self, container: str) -> bool:
        return "running" in self._states.get(container, {})

    async def start_program(
        self, container: str, argv: Sequence[str]
    ) -> asyncio.subprocess.Process:
        """Start a program in a container that runs. Raises OSError."""
        words = [self._local(word) for word in self._acted_for(list(argv))]
        is_step = container == STEP_CONTAINER
        main = next(each for each in self._spec["containers"] if each["name"] == STEP_CONTAINER)
        return await self._spawn(
            words,
            self._variables() if is_step else {},
            self._cwd(main) if is_step else "/",
            stdin=asyncio.subprocess.PIPE,
        )

    async def end_program(self, process: asyncio.subprocess.Process) -> int:
        """Return the exit code of a program that ends, or is killed by a cancellation."""
        return await self._end_of(process)

    def _acted_for(self, argv: list[str]) -> list[str]:
        """Replace the scripts that look for the step's processes by what they would do here."""
        pid = self._step.pid if self._step else 0
        scripts = {
            keeper._TERMINATE: f"kill -TERM {pid}",
            keeper._KILL: f"kill -KILL -{pid}",
            keeper._USAGE: _usage(pid),
        }
        if argv[:2] != ["sh", "-c"] or argv[2] not in scripts:
            return argv
        return ["sh", "-c", scripts[argv[2]] if pid else "true"]


def _usage(session: int) -> str:
    return f"for p in $(ps -o pid= -s {session}); do cat /proc/$p/stat 2>/dev/null; done; true"


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def secret_values(found: Object) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in found.get("data", {}).items()}
