"""`python -m bench.sync_orchestrator PORT STORE`: a small orchestrator for the gateway's benchmark.

A delivery is a row in SQLite, synced to disk, before it is answered; what arrives during a sync
goes together into the next. Nothing executes the rows: the benchmark is about the gateway. For the
same reason it speaks just as much HTTP/2 as gRPC's client needs: a gRPC server in Python takes as
long for a call as the gateway does, and would be what limits the rate.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import struct
import sys
import threading
from collections.abc import Iterator
from typing import Final

import uvloop

from kernel.ids import new_uuid7
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2 import (
    PingResponse,
    ProcessWebhookRequest,
    ProcessWebhookResponse,
)

Row = tuple[str, str, str, str, str]
_TABLE: Final = (
    "CREATE TABLE task (id TEXT PRIMARY KEY, idempotency_key TEXT UNIQUE, platform TEXT,"
    " datasource TEXT, delivery_id TEXT)"
)
_INSERT: Final = "INSERT OR IGNORE INTO task VALUES (?, ?, ?, ?, ?)"
# RFC 9113: frame types, flags, settings.
_DATA, _HEADERS, _SETTINGS, _PING, _WINDOW_UPDATE = 0, 1, 4, 6, 8
_ACK = _END_STREAM = 1
_END_HEADERS = 4
_INITIAL_WINDOW, _MAX_FRAME = 4, 5
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_WINDOW: Final = 2**30
_LARGEST_FRAME: Final = 2**20
_REFILL: Final = 2**20  # of the connection's window, when so much of it is used up
_LARGEST_PING: Final = 1000  # bytes; a delivery is larger


class Store:
    """Rows written by a thread of its own, many in one transaction."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._waiting: queue.SimpleQueue[tuple[Row, asyncio.Future[None]]] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._write, daemon=True).start()

    async def add(self, row: Row) -> None:
        """Returns when it is on disk."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting.put((row, done))
        await done

    def _write(self) -> None:
        store = sqlite3.connect(self._path, isolation_level=None)
        store.execute("PRAGMA journal_mode=WAL")
        store.execute("PRAGMA synchronous=FULL")
        store.execute(_TABLE)
        while True:
            batch = [self._waiting.get()]
            while not self._waiting.empty():
                batch.append(self._waiting.get())
            store.execute("BEGIN")
            store.executemany(_INSERT, [row for row, _done in batch])
            store.execute("COMMIT")
            self._loop.call_soon_threadsafe(_tell, [done for _row, done in batch])


def _tell(stored: list[asyncio.Future[None]]) -> None:
    for each in stored:
        if not each.done():
            each.set_result(None)


def _frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def _field(name: bytes, value: bytes) -> bytes:
    """A header that is in no table (RFC 7541, 6.2.2)."""
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


_HEAD: Final = b"\x88" + _field(b"content-type", b"application/grpc")  # 0x88: status 200
_TRAILERS: Final = _field(b"grpc-status", b"0")


class Connection(asyncio.Protocol):
    """Requests are told apart by their size, so that their headers need not be read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unread = bytearray()
        self._skip = len(_PREFACE)
        self._messages: dict[int, list[bytes]] = {}
        self._used = 0
        self._running: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.WriteTransport) -> None:  # type: ignore[override]
        self._transport = transport
        sizes = struct.pack(">HIHI", _INITIAL_WINDOW, _WINDOW, _MAX_FRAME, _LARGEST_FRAME)
        more = struct.pack(">I", _WINDOW)
        transport.write(_frame(_SETTINGS, 0, 0, sizes) + _frame(_WINDOW_UPDATE, 0, 0, more))

    def data_received(self, data: bytes) -> None:
        self._unread += data
        for kind, flags, stream, body in self._frames():
            if kind == _DATA:
                self._take(stream, body, last=bool(flags & _END_STREAM))
            elif kind in {_SETTINGS, _PING} and not flags & _ACK:
                self._transport.write(_frame(kind, _ACK, 0, body if kind == _PING else b""))
        if self._used > _REFILL:
            self._transport.write(_frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", self._used)))
            self._used = 0

    def _frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        at, self._skip = self._skip, 0
        while len(self._unread) - at >= 9:
            size = int.from_bytes(self._unread[at : at + 3], "big")
            end = at + 9 + size
            if len(self._unread) < end:
                break
            kind, flags, stream = struct.unpack_from(">BBI", self._unread, at + 3)
            yield kind, flags, stream, bytes(self._unread[at + 9 : end])
            at = end
        self._skip = max(0, at - len(self._unread))
        del self._unread[:at]

    def _take(self, stream: int, body: bytes, *, last: bool) -> None:
        self._used += len(body)
        parts = self._messages.setdefault(stream, [])
        parts.append(body)
        if last:
            del self._messages[stream]
            task = asyncio.ensure_future(self._answer(stream, b"".join(parts)[5:]))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _answer(self, stream: int, message: bytes) -> None:
        said = await self._answer_to(message)
        self._transport.write(
            _frame(_HEADERS, _END_HEADERS, stream, _HEAD)
            + _frame(_DATA, 0, stream, b"\0" + struct.pack(">I", len(said)) + said)
            + _frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, _TRAILERS)
        )

    async def _answer_to(self, message: bytes) -> bytes:
        if len(message) <= _LARGEST_PING:
            return PingResponse(ready=True).SerializeToString()
        request = ProcessWebhookRequest.FromString(message)
        task_id, key = new_uuid7(), request.idempotency_key
        row = (task_id, key, request.platform, request.datasource, request.delivery_id)
        await self._store.add(row)
        return ProcessWebhookResponse(task_id=task_id, message="accepted").SerializeToString()


async def serve(port: int, path: str) -> None:
    store = Store(path)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(store), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2]))
