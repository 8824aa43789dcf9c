"""The log of one attempt: from the runtime's records through masking to the control plane."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from kernel import clock
from kernel.agent_protocol import Job, JobDirective, LogChunk, LogLine
from worker.domain.control_plane import Reports
from worker.domain.masked_output import LineCutter, cut
from worker.domain.output_records import OutputRecord
from worker.domain.runtime import Runtime, Unit
from worker.supervisor.spool import LINE_OVERHEAD, Spool, SpoolEntry, SpoolSpace
from worker.supervisor.waits import cancel_all, retry_until_answered, set_once

FLUSH_S: Final = 0.05
BATCH_BYTES: Final = 16 * 1024
MAX_IN_FLIGHT: Final = 8  # chunks on their way together, where they keep their order


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """The number of the next line, and the runtime's records taken so far."""

    next_seq: int = 0
    position: int = 0


class StepLog:
    """Sends each line once; `start`: where an earlier process stopped.

    The runtime's records are always read from the first one, because the beginning of a line, a
    secret or a watched text may lie before `start.position`.
    """

    def __init__(
        self,
        control_plane: Reports,
        job: Job,
        space: SpoolSpace,
        *,
        cutter: LineCutter,
        start: LogPosition,
        apply_directive: Callable[[JobDirective], None],
    ) -> None:
        self._control_plane = control_plane
        self._job = job
        self._apply_directive = apply_directive
        self.watch = cutter.watch
        self.seen = asyncio.Condition()  # notified after each batch of output
        self._cutter = cutter
        self._spool = Spool(space)
        self._next_seq = start.next_seq
        self._taken = start.position
        self._put = start.position
        self._handed_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sending = asyncio.create_task(self._send_all(), name=f"send {job.job_id}")

    @property
    def sending(self) -> asyncio.Task[None]:
        """The task that ends when every line is stored; it fails if one is refused."""
        return self._sending

    def mask(self, text: str) -> str:
        return self._cutter.redactor.mask(text)

    async def append_system_line(self, text: str, *, level: str = "info") -> None:
        """Append a line of the supervisor's own, masked."""
        now = clock.now()
        pieces = cut(self.mask(text))
        lines = [
            LogLine(now, level, "system", piece, number < len(pieces))
            for number, piece in enumerate(pieces, start=1)
        ]
        await self._spool.put([SpoolEntry(self._put, lines)])

    async def read(self, runtime: Runtime, unit: Unit) -> None:
        """Read the unit's output to its end. Raises RuntimeFailure."""
        position = 0
        async for records in runtime.output(unit):
            position = records[-1].position
            await self._add(self._entries(records))
        # a line left open counts as one more record, so that it is closed only once
        await self._add([SpoolEntry(position + 1, self._cutter.finish())])

    def _entries(self, records: Sequence[OutputRecord]) -> list[SpoolEntry]:
        """Return one entry per record; short new records share an entry, which is faster."""
        batch_bytes = BATCH_BYTES if records[0].position > self._taken else 0
        entries, lines, size = [], list[LogLine](), 0
        for record in records:
            lines += self._cutter.feed(record)
            size += len(record.data) + LINE_OVERHEAD
            if size >= batch_bytes:
                entries.append(SpoolEntry(record.position, lines))
                lines, size = [], 0
        return [*entries, SpoolEntry(records[-1].position, lines)] if size else entries

    async def _add(self, entries: list[SpoolEntry]) -> None:
        if fresh := [entry for entry in entries if entry.position > self._taken]:
            self._put = fresh[-1].position
            await self._spool.put(fresh)
        async with self.seen:
            self.seen.notify_all()

    async def _send_all(self) -> None:
        while await self._spool.wait():
            await self._spool.wait_for_chunk(FLUSH_S)  # more lines may come for the same chunk
            chunks = [await self._next_chunk()]
            while (
                self._control_plane.in_order and len(chunks) < MAX_IN_FLIGHT and self._spool.is_full
            ):
                chunks.append(await self._next_chunk())
            if len(chunks) == 1 or not await self._send_concurrently(chunks):
                for chunk in chunks:
                    await retry_until_answered(partial(self._send, chunk))
        set_once(self._handed_over)

    async def _next_chunk(self) -> LogChunk:
        entry = await self._spool.take()
        chunk = LogChunk(
            job=self._job, seq=self._next_seq, position=entry.position, lines=entry.lines
        )
        self._next_seq += len(entry.lines)
        return chunk

    async def _send_concurrently(self, chunks: Sequence[LogChunk]) -> bool:
        """Return False if one is not stored: all are then sent again, and none is stored twice."""
        answers = await asyncio.gather(*map(self._send, chunks), return_exceptions=True)
        return not any(answers)

    async def _send(self, chunk: LogChunk) -> None:
        if self._spool.is_over and chunk.seq + len(chunk.lines) == self._next_seq:
            set_once(self._handed_over)  # nothing is awaited between here and the call
        self._apply_directive(await self._control_plane.send(chunk))

    async def finish(self) -> int:
        """Hand over the remaining lines without waiting; return the number of lines in all."""
        self._spool.end()
        either = {self._handed_over, self._sending}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return self._next_seq

    async def close(self) -> None:
        await cancel_all([self._sending])
        await self._spool.close()
