"""Lines on their way to the control plane: some in memory, more on disk, then the reader waits.

Next to the store there is no disk: the reader waits at once, because the runtime's own log is on
disk. Unsent lines end with the process; the next process reads them again from the runtime.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple

import msgspec

from kernel.agent_protocol import LogLine

MEMORY_BYTES: Final = 2 * 2**20  # of one step
DISK_BYTES: Final = 64 * 2**20  # of all steps together
CHUNK_LINES: Final = 1_000
CHUNK_BYTES: Final = 2**20
LINE_OVERHEAD: Final = 64


class SpoolEntry(NamedTuple):
    """The lines of one record of the runtime; without lines only its position counts."""

    position: int
    lines: list[LogLine]


class SpoolSpace:
    """The disk space that the spools of one supervisor share; `limit` 0: no disk."""

    def __init__(self, folder: Path, limit: int = DISK_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.limit = limit
        self._free = limit
        self._changed = asyncio.Condition()

    async def acquire(self, size: int) -> None:
        """Wait until space is free; this slows down a fast reader."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._free > 0)
            self._free -= size

    async def release(self, size: int) -> None:
        async with self._changed:
            self._free += size
            self._changed.notify_all()


class Spool:
    """First in, first out; one writer, one reader."""

    def __init__(self, space: SpoolSpace, *, memory_bytes: int = MEMORY_BYTES) -> None:
        self._space = space
        self._memory_bytes = memory_bytes
        self._entries: deque[SpoolEntry] = deque()
        self._held = 0  # bytes of the entries in memory, and their lines
        self._lines = 0
        self._file: IO[bytes] | None = None
        self._on_disk: deque[int] = deque()  # sizes
        self._read_at = 0
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._chunk_ready = asyncio.Event()  # a whole chunk, or the last
        self._ended = False

    async def put(self, entries: Sequence[SpoolEntry]) -> None:
        if self._space.limit and (self._on_disk or self._held >= self._memory_bytes):
            await self._write(msgspec.msgpack.encode(list(entries)))
        else:
            while self._held >= self._memory_bytes:
                self._room.clear()
                await self._room.wait()
            self._keep(entries)
        self._filled.set()
        self._update_chunk_ready()

    def end(self) -> None:
        """Declare that no more entries follow."""
        self._ended = True
        self._filled.set()
        self._chunk_ready.set()

    def _keep(self, entries: Sequence[SpoolEntry]) -> None:
        self._entries.extend(entries)
        self._held += sum(map(_size, entries))
        self._lines += sum(len(entry.lines) for entry in entries)

    async def _write(self, encoded: bytes) -> None:
        await self._space.acquire(len(encoded))
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._space.folder)  # noqa: SIM115 - see close
        self._file.seek(0, 2)
        self._file.write(encoded)
        self._on_disk.append(len(encoded))

    async def _read_back(self) -> None:
        assert self._file is not None
        size = self._on_disk.popleft()
        self._file.seek(self._read_at)
        self._keep(msgspec.msgpack.decode(self._file.read(size), type=list[SpoolEntry]))
        self._read_at += size
        if not self._on_disk:
            self._file.truncate(0)
            self._read_at = 0
        await self._space.release(size)

    async def wait(self) -> bool:
        """Wait until there is an entry to take; return False at the end."""
        while not self._entries and not self._on_disk:
            if self._ended:
                return False
            self._filled.clear()
            await self._filled.wait()
        return True

    @property
    def is_over(self) -> bool:
        """True once everything is taken and no more follows."""
        return self._ended and not self._entries and not self._on_disk

    @property
    def is_full(self) -> bool:
        """True if there is a whole chunk."""
        return self._lines >= CHUNK_LINES or self._held >= CHUNK_BYTES or bool(self._on_disk)

    async def wait_for_chunk(self, within_s: float) -> None:
        """Wait for a whole chunk or the end, at most `within_s`."""
        if not self._chunk_ready.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._chunk_ready.wait()

    def _update_chunk_ready(self) -> None:
        if self.is_full or self._ended:
            self._chunk_ready.set()
        else:
            self._chunk_ready.clear()

    async def take(self) -> SpoolEntry:
        """Join entries for one chunk: whole records, at most 1,000 lines and about 1 MiB."""
        while self._on_disk and len(self._entries) < CHUNK_LINES and self._held < CHUNK_BYTES:
            await self._read_back()
        lines: list[LogLine] = []
        position = size = 0
        while self._entries:
            entry = self._entries[0]
            size += _size(entry)
            if lines and (len(lines) + len(entry.lines) > CHUNK_LINES or size > CHUNK_BYTES):
                break
            self._entries.popleft()
            self._held -= _size(entry)
            self._lines -= len(entry.lines)
            position = entry.position
            lines += entry.lines
        self._room.set()
        self._update_chunk_ready()
        return SpoolEntry(position, lines)

    async def close(self) -> None:
        if self._file is not None:
            self._file.close()
            await self._space.release(sum(self._on_disk))
            self._on_disk.clear()


def _size(entry: SpoolEntry) -> int:
    return sum(_bytes(line.text) + LINE_OVERHEAD for line in entry.lines)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
