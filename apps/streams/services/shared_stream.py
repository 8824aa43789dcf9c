"""One stream that carries the frames of several: a browser's tabs share one connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from apps.streams.domain.sse_frames import CONNECTED, PING, stream_over, stream_switch
from apps.streams.services.hub import PING_S, process_hub

_Piece = tuple[int, bytes | Exception]
_OVER: Final = b""


async def merge(streams: Sequence[AsyncGenerator[bytes] | bytes]) -> AsyncGenerator[bytes]:
    """Yield the frames of all streams as they come, until every stream is over.

    `event: stream` with the position of a stream in `streams` says from which one the frames after
    it are. A stream that is given as bytes is over after them. `event: over` follows the last frame
    of each stream, except when the process drains. A stream waits while the client is slow; it
    buffers one piece at most. An error of one stream is raised.
    """
    hub = process_hub()
    pieces: asyncio.Queue[_Piece] = asyncio.Queue(maxsize=1)
    tasks = [hub.spawn(_pump(number, frames, pieces)) for number, frames in enumerate(streams)]
    current, left, sent_at = -1, len(tasks), hub.loop.time()
    try:
        yield CONNECTED
        while left:
            number, piece = await pieces.get()
            if isinstance(piece, Exception):
                raise piece
            if piece is PING and hub.loop.time() - sent_at < PING_S / 2:
                continue
            if piece == _OVER:
                left -= 1
                piece = b"" if hub.over else stream_over()
            switch = b"" if piece in (_OVER, PING) or number == current else stream_switch(number)
            if switch:
                current = number
            if piece:
                sent_at = hub.loop.time()
                yield switch + piece
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(
    number: int, frames: AsyncGenerator[bytes] | bytes, pieces: asyncio.Queue[_Piece]
) -> None:
    try:
        if isinstance(frames, bytes):
            await pieces.put((number, frames))
        else:
            async with aclosing(frames):
                async for frame in frames:
                    if frame is not CONNECTED:
                        await pieces.put((number, frame))
    except Exception as error:  # noqa: BLE001 - the reader of the queue raises it
        await pieces.put((number, error))
    else:
        await pieces.put((number, _OVER))
