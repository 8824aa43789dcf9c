"""One shell session at its runner: the program's output into the store, what is typed out of it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, ParamSpec, TypeVar

from django.db import DatabaseError

from apps.shells import api as shells
from apps.streams.api import DatastoreUnavailable, on_store_thread
from apps.workers.store_loops import pause, wakes
from worker.domain import ownership
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import Runtime, RuntimeFailure, ShellUnavailable, Unit
from worker.domain.shells import Shell, ShellRequest

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger("partita.workers")
OPEN_WITHIN_S: Final = 120.0  # a copy of a large step takes its time
CLOSE_WITHIN_S: Final = 10.0
CLIENT_BACK_WITHIN_S: Final = 60.0
RENEW_EVERY_S: Final = 5.0
LOOK_EVERY_S: Final = 1.0
OUTPUT_KEPT_BYTES: Final = 4 * 2**20  # of what a client has got already
FORGET_STEP_BYTES: Final = 2**20
_STORE_PAUSE_S: Final = 0.5
_STORE_WITHIN_S: Final = 30.0


class _NotOurs(Exception):
    """The session has ended, or is another runner's: nothing more is stored."""


class ServedShell:
    """Opens a session, passes bytes in both directions and says why it ended.

    Output passes the filter for terminals before it is stored. It waits while a client is more
    than 1 MiB behind.
    """

    def __init__(
        self, held: shells.HeldShell, runtime: Runtime, owner: UnitOwner, holder: str
    ) -> None:
        self._held = held
        self._runtime = runtime
        self._owner = owner
        self._holder = holder
        self._loop = asyncio.get_running_loop()
        self._pace = shells.Pace(self._loop.time())
        self._read = asyncio.Event()  # a client has got more
        self._read_id = 0
        self._unread: deque[tuple[int, int]] = deque()  # number and size of records, oldest first
        self._unread_bytes = 0
        self._got: deque[tuple[int, int]] = deque()  # of those that a client got
        self._got_bytes = 0

    async def run(self) -> None:
        """Serve the session to its end, which is stored unless it is not ours any more."""
        end = shells.SessionEnd(code=shells.EndCode.RUNNER_RESTARTED)
        try:
            end = await self._serve()
        except _NotOurs:
            return
        except Exception as error:
            log.exception("shell %s has failed", self._held.pk)
            end = shells.SessionEnd(code=shells.EndCode.UNIT_LOST, more=f": {type(error).__name__}")
        finally:
            with suppress(TimeoutError):  # its lease ends soon
                async with asyncio.timeout(_STORE_WITHIN_S):
                    await _store(shells.end_held, self._held.pk, self._holder, end)

    async def _serve(self) -> shells.SessionEnd:
        tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self._work())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return next(iter(done)).result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # The program

    async def _work(self) -> shells.SessionEnd:
        try:
            async with asyncio.timeout(OPEN_WITHIN_S):
                shell = await self._open()
        except (RuntimeFailure, TimeoutError) as error:
            reason = str(error) or f"no answer of the runtime within {OPEN_WITHIN_S:g} s"
            return shells.SessionEnd(code=shells.EndCode.NOT_OPENED, more=f": {reason}")
        try:
            opened = _store(shells.mark_open, self._held, self._holder, notice=shell.notice)
            if not await opened:
                raise _NotOurs
            return await self._pass_bytes(shell)
        except RuntimeFailure as error:
            if not await self._may_go_on():  # what was lost had been removed
                return shells.SessionEnd(code=shells.EndCode.NOT_KEPT)
            return shells.SessionEnd(code=shells.EndCode.UNIT_LOST, more=f": {error}")
        finally:
            await self._close(shell)

    async def _open(self) -> Shell:
        request = ShellRequest(
            shell_id=str(self._held.pk),
            command=self._held.command,
            columns=self._held.size.columns,
            rows=self._held.size.rows,
        )
        return await self._runtime.open_shell(await self._find_unit(), request)

    async def _find_unit(self) -> Unit:
        """Return the unit of the step's newest attempt; raise ShellUnavailable without one."""
        wanted = (self._held.run_id, self._held.step_id)
        found = [
            unit
            for unit in await self._runtime.find(self._owner)
            if (unit.labels.get(ownership.RUN_ID), unit.labels.get(ownership.STEP)) == wanted
        ]
        if not found:
            raise ShellUnavailable(f"there is nothing left of {self._held.step_id} on its runtime")
        return max(found, key=lambda unit: int(unit.labels.get(ownership.ATTEMPT, "0")))

    async def _close(self, shell: Shell) -> None:
        try:
            async with asyncio.timeout(CLOSE_WITHIN_S):
                await shell.close()
        except (RuntimeFailure, TimeoutError) as error:
            log.warning("shell %s may have left something: %s", self._held.pk, error)

    async def _pass_bytes(self, shell: Shell) -> shells.SessionEnd:
        typing = asyncio.create_task(self._pass_input(shell))
        reading = asyncio.create_task(self._pass_output(shell))
        try:
            done, _ = await asyncio.wait({typing, reading}, return_when=asyncio.FIRST_COMPLETED)
            next(iter(done)).result()
        finally:
            for task in (typing, reading):
                task.cancel()
            await asyncio.gather(typing, reading, return_exceptions=True)
        exit_code = await shell.wait()
        if not await self._may_go_on():
            return shells.SessionEnd(code=shells.EndCode.NOT_KEPT, exit_code=exit_code)
        return shells.SessionEnd(
            code=shells.EndCode.EXITED, more=f" with {exit_code}", exit_code=exit_code
        )

    async def _pass_output(self, shell: Shell) -> None:
        passing = shells.TerminalFilter()
        while data := await shell.read():
            await self._write(passing.feed(data))
        await self._write(passing.end())

    async def _write(self, safe: bytes) -> None:
        """Store output; wait while the client is too far behind."""
        pieces = [
            safe[at : at + shells.MOST_BYTES] for at in range(0, len(safe), shells.MOST_BYTES)
        ]
        if not pieces:
            return
        self._pace.note_activity(self._loop.time())
        last = await _store(shells.write_output, self._held.pk, pieces)
        if not last:
            raise _NotOurs
        self._unread.append((last, len(safe)))
        self._unread_bytes += len(safe)
        self._note_read()
        while self._unread_bytes > shells.MOST_UNREAD:
            self._read.clear()
            await self._read.wait()

    def _note_read(self) -> None:
        """Count what a client has got meanwhile as read."""
        while self._unread and self._unread[0][0] <= self._read_id:
            number, size = self._unread.popleft()
            self._unread_bytes -= size
            self._got.append((number, size))
            self._got_bytes += size
        self._read.set()

    async def _pass_input(self, shell: Shell) -> None:
        after = 0
        with wakes(shells.input_topic(self._held.pk)) as woken:
            while True:
                typed, after = await _store(shells.read_input, self._held.pk, after=after)
                for each in typed:
                    if isinstance(each, bytes):
                        await shell.write(each)
                    else:
                        await shell.resize(columns=each.columns, rows=each.rows)
                if typed:
                    self._pace.note_activity(self._loop.time())
                    await _store(shells.forget_input, self._held.pk, upto=after)
                else:
                    await pause(woken, self._pace.pause_s(self._loop.time()))

    # The client and the run

    async def _watch(self) -> shells.SessionEnd:
        """Renew the lease and return why the session must end; raise _NotOurs if it has."""
        silence, renew_at = shells.Silence(self._loop.time()), 0.0
        with wakes(shells.input_topic(self._held.pk)) as woken:
            while True:
                pulse = await _store(shells.read_pulse, self._held.pk, self._holder)
                if pulse is None:
                    raise _NotOurs
                now = self._loop.time()
                self._read_id = pulse.read_id
                self._note_read()
                if silence.read(pulse.client_seen_at, now) >= CLIENT_BACK_WITHIN_S:
                    return shells.SessionEnd(code=shells.EndCode.CLIENT_LEFT)
                if now - self._pace.active_at >= shells.idle_s():
                    return shells.SessionEnd(code=shells.EndCode.IDLE)
                if now >= renew_at:
                    renew_at = now + RENEW_EVERY_S
                    if end := await self._renew():
                        return end
                await self._forget_old_output()
                await pause(woken, LOOK_EVERY_S)

    async def _renew(self) -> shells.SessionEnd | None:
        if not await _store(shells.renew_session, self._held.pk, self._holder):
            raise _NotOurs
        if await self._may_go_on():
            return None
        return shells.SessionEnd(code=shells.EndCode.NOT_KEPT)

    async def _may_go_on(self) -> bool:
        """Return whether the run still has its environment."""
        return await _store(shells.can_still_enter, self._held.run_id)

    async def _forget_old_output(self) -> None:
        """Delete output that a client got, in large steps, but for the newest 4 MiB."""
        if self._got_bytes < OUTPUT_KEPT_BYTES + FORGET_STEP_BYTES:
            return
        upto = 0
        while self._got_bytes > OUTPUT_KEPT_BYTES:
            upto, size = self._got.popleft()
            self._got_bytes -= size
        await _store(shells.forget_output, self._held.pk, upto=upto)


async def _store(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Return `work(…)` of a thread; while the store is away, try again and lose nothing."""
    while True:
        try:
            return await on_store_thread(work, *args, **kwargs)
        except (DatabaseError, DatastoreUnavailable) as error:
            log.warning("a shell waits for the store: %s", error)
            await asyncio.sleep(_STORE_PAUSE_S)
