"""Scripts of dispatchers, evaluated in a few child processes (reference: control-plane 18.3).

    pool = ScriptPool()
    name = await pool.run(source, defines_function=True, request=request, state={})
    pool.close()

Processes start when they are first needed and stay. A call has 50 ms of its process's time; then
the process is killed, and another takes its place. Scripts that were slow or broke a limit run one
at a time for a while, so that those of other suites have a process left. The callers may be tasks
of several event loops.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mocks.model.ports import ScriptFailed
from mocks.scripts.process import Limits, ProcessEnded, ScriptProcess
from mocks.scripts.slots import Slots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PROCESSES: Final = 2
CPU_S: Final = 0.05
WALL_S: Final = 0.25  # on a host that has no processor for the child
MEMORY: Final = 256 * 2**20
INSTRUCTIONS: Final = 100_000
MAX_REQUEST: Final = 256 * 2**10  # bytes of the request as JSON
MAX_SOURCE: Final = 64 * 2**10
WAITING: Final = 256
SLOW_S: Final = 0.01
SLOW_WAITING: Final = 8
SLOW_FOR_S: Final = 30.0
_MAX_SLOW: Final = 1_000
_encoder: Final = msgspec.json.Encoder(enc_hook=dict)


class ScriptPool:
    """Implements ScriptRunner."""

    def __init__(
        self,
        *,
        processes: int = PROCESSES,
        limits: Limits = Limits(  # noqa: B008 - frozen
            cpu_s=CPU_S, wall_s=WALL_S, memory=MEMORY, instructions=INSTRUCTIONS
        ),
    ) -> None:
        self._limits = limits
        self._all = Slots(processes, WAITING)
        self._slow_ones = Slots(1, SLOW_WAITING)
        self._lock = threading.Lock()
        self._idle: list[ScriptProcess] = []
        self._busy: set[ScriptProcess] = set()
        self._dying: list[ScriptProcess] = []
        self._slow_until: OrderedDict[str, float] = OrderedDict()
        self._closed = threading.Event()

    async def run(
        self,
        source: str,
        *,
        defines_function: bool,
        request: Mapping[str, Any],
        state: Mapping[str, str],
    ) -> str | None:
        if len(source) > MAX_SOURCE:
            raise ScriptFailed("the script is too long")
        document = _document(
            {"source": source, "defines": defines_function, "state": state}, request
        )
        async with AsyncExitStack() as held:
            if self._is_slow(source):
                await held.enter_async_context(_slot(self._slow_ones))
            await held.enter_async_context(_slot(self._all))
            answer = await self._ask(source, document)
        if "error" in answer:
            raise ScriptFailed(_detail(answer))
        name: str | None = answer["name"]
        return name

    async def _ask(self, source: str, document: bytes) -> dict[str, Any]:
        process = await self._process()
        is_kept = False
        try:
            answer = await process.ask(document)
            is_kept = not answer["retires"]
        except ProcessEnded:
            self._mark_slow(source)
            raise ScriptFailed(
                f"the script used more than {self._limits.cpu_s * 1000:g} ms, or too much memory"
            ) from None
        finally:
            self._give_back(process, is_kept=is_kept)
        if answer["took"] > SLOW_S or answer["retires"]:
            self._mark_slow(source)
        return answer

    async def _process(self) -> ScriptProcess:
        """Return a process for one call; raise ScriptFailed."""
        with self._lock:
            self._dying = [each for each in self._dying if not each.has_ended()]
            while self._idle:
                process = self._idle.pop()
                if not process.has_ended():
                    self._busy.add(process)
                    return process
                process.kill()
        process = await self._start_process()
        is_ready = False
        try:
            is_ready = await process.is_ready()
        finally:
            if not is_ready:
                self._give_back(process, is_kept=False)
        if not is_ready:
            raise ScriptFailed("no process for scripts could be started")
        return process

    async def _start_process(self) -> ScriptProcess:
        if self._closed.is_set():
            raise ScriptFailed("the server is ending")
        starting = asyncio.ensure_future(asyncio.to_thread(ScriptProcess, self._limits))
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(lambda done: self._give_back(done.result(), is_kept=False))
            raise
        with self._lock:
            self._busy.add(process)
            if self._closed.is_set():
                process.end()
        return process

    def _give_back(self, process: ScriptProcess, *, is_kept: bool) -> None:
        with self._lock:
            self._busy.discard(process)
            if is_kept and not self._closed.is_set():
                self._idle.append(process)
                return
            process.kill()
            self._dying.append(process)

    def _is_slow(self, source: str) -> bool:
        return self._slow_until.get(source, 0.0) > time.monotonic()

    def _mark_slow(self, source: str) -> None:
        with self._lock:
            self._slow_until[source] = time.monotonic() + SLOW_FOR_S
            self._slow_until.move_to_end(source)
            if len(self._slow_until) > _MAX_SLOW:
                self._slow_until.popitem(last=False)

    def open(self) -> None:
        """Take calls again after `close`; a new pool is open."""
        self._closed.clear()

    def close(self) -> None:
        """End every process and wait until they are gone; calls under way fail."""
        with self._lock:
            self._closed.set()
            for process in self._idle:
                process.kill()
            for process in self._busy:
                process.end()
            ended = [*self._idle, *self._busy, *self._dying]
            self._idle, self._dying = [], []
        for process in ended:
            process.wait()


@asynccontextmanager
async def _slot(slots: Slots) -> AsyncIterator[None]:
    if not await slots.acquire():
        raise ScriptFailed("too many calls wait for scripts")
    try:
        yield
    finally:
        slots.release()


def _document(call: Mapping[str, Any], request: Mapping[str, Any]) -> bytes:
    """Return a call as JSON, without a body that the script does not name; raise ScriptFailed."""
    seen = {
        name: "" if name in ("body", "rawBody") and name not in call["source"] else value
        for name, value in request.items()
    }
    try:
        document = _encoder.encode({**call, "request": seen})
    except (TypeError, ValueError, RecursionError):
        raise ScriptFailed("the request cannot be given to a script") from None
    if len(document) > MAX_REQUEST:
        raise ScriptFailed(
            f"the request is larger than a script may read, which is {MAX_REQUEST // 1024} KiB"
        )
    return document


def _detail(answer: Mapping[str, Any]) -> str:
    place = f" (line {answer['line']}, column {answer['column']})" if answer["line"] else ""
    return f"{answer['error']}{place}"
