"""`python -m bench.sync_orchestrator PORT STORE`: a small orchestrator for the gateway's benchmark.

A delivery is a row in SQLite, synced to disk, before it is answered; what arrives during a sync
goes together into the next. Nothing executes the rows: the benchmark is about the gateway.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import sys
import threading
from typing import Any

import grpc.aio
import uvloop

from kernel.ids import new_uuid7
from sync_stack.rpc.channel import SERVER_OPTIONS
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2 import (
    PingResponse,
    ProcessWebhookResponse,
)
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2_grpc import (
    OrchestratorServicer,
    add_OrchestratorServicer_to_server,
)

Row = tuple[str, str, str, str, str]
_TABLE = (
    "CREATE TABLE task (id TEXT PRIMARY KEY, idempotency_key TEXT UNIQUE, platform TEXT,"
    " datasource TEXT, delivery_id TEXT)"
)
_INSERT = "INSERT OR IGNORE INTO task VALUES (?, ?, ?, ?, ?)"


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


class Orchestrator(OrchestratorServicer):
    def __init__(self, store: Store) -> None:
        self._store = store

    async def ProcessWebhook(  # noqa: N802 - the name in the proto
        self, request: Any, _context: Any
    ) -> ProcessWebhookResponse:
        task_id = new_uuid7()
        key, delivery = request.idempotency_key, request.delivery_id
        await self._store.add((task_id, key, request.platform, request.datasource, delivery))
        return ProcessWebhookResponse(task_id=task_id, message="accepted")

    async def Ping(self, _request: Any, _context: Any) -> PingResponse:  # noqa: N802
        return PingResponse(ready=True)


async def serve(port: int, path: str) -> None:
    server = grpc.aio.server(options=SERVER_OPTIONS)
    add_OrchestratorServicer_to_server(  # type: ignore[no-untyped-call]
        Orchestrator(Store(path)), server
    )
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2]))
