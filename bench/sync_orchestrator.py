"""`python -m bench.sync_orchestrator PORT STORE`: a small orchestrator for the gateway's benchmark.

A delivery is a row in SQLite, synced to disk, before it is answered; what arrives during a sync
goes together into the next. Nothing executes the rows: the benchmark is about the gateway. It is
gRPC's own server: the deliveries of one message of the stream cost it little more than one.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import sys
import threading
from collections.abc import Sequence
from typing import Any, Final

import grpc.aio
import uvloop

from kernel.ids import new_uuid7
from sync_stack.rpc.channel import SERVER_OPTIONS
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2 import (
    PingResponse,
    ProcessWebhookBatchResult,
    ProcessWebhookResponse,
)
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2_grpc import (
    OrchestratorServicer,
    add_OrchestratorServicer_to_server,
)

Row = tuple[str, str, str, str, str]
_TABLE: Final = (
    "CREATE TABLE task (id TEXT PRIMARY KEY, idempotency_key TEXT UNIQUE, platform TEXT,"
    " datasource TEXT, delivery_id TEXT)"
)
_INSERT: Final = "INSERT OR IGNORE INTO task VALUES (?, ?, ?, ?, ?)"


class Store:
    """Rows written by a thread of its own, many in one transaction."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._waiting: queue.SimpleQueue[tuple[Sequence[Row], asyncio.Future[None]]]
        self._waiting = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._write, daemon=True).start()

    async def add(self, rows: Sequence[Row]) -> None:
        """Returns when they are on disk."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting.put((rows, done))
        await done

    def _write(self) -> None:
        store = sqlite3.connect(self._path, isolation_level=None)
        store.execute("PRAGMA journal_mode=WAL")
        store.execute("PRAGMA synchronous=FULL")
        store.execute(_TABLE)
        while True:
            waiting = [self._waiting.get()]
            while not self._waiting.empty():
                waiting.append(self._waiting.get())
            store.execute("BEGIN")
            store.executemany(_INSERT, [row for rows, _done in waiting for row in rows])
            store.execute("COMMIT")
            self._loop.call_soon_threadsafe(_tell, [done for _rows, done in waiting])


def _tell(stored: list[asyncio.Future[None]]) -> None:
    for each in stored:
        if not each.done():
            each.set_result(None)


def _row(request: Any) -> Row:
    key = request.idempotency_key
    return (new_uuid7(), key, request.platform, request.datasource, request.delivery_id)


class Orchestrator(OrchestratorServicer):
    def __init__(self, store: Store) -> None:
        self._store = store

    async def Ping(self, _request: Any, _context: Any) -> PingResponse:  # noqa: N802
        return PingResponse(ready=True)

    async def ProcessWebhook(  # noqa: N802
        self, request: Any, _context: Any
    ) -> ProcessWebhookResponse:
        row = _row(request)
        await self._store.add([row])
        return ProcessWebhookResponse(task_id=row[0], message="accepted")

    async def ProcessWebhooks(self, _requests: Any, context: Any) -> None:  # noqa: N802
        while (batch := await context.read()) is not grpc.aio.EOF:
            rows = [_row(each.request) for each in batch.webhooks]
            await self._store.add(rows)
            answer = ProcessWebhookBatchResult()
            for row in rows:
                answer.results.add(
                    idempotency_key=row[1], response={"task_id": row[0], "message": "accepted"}
                )
            await context.write(answer)


async def serve(port: int, path: str) -> None:
    server = grpc.aio.server(options=SERVER_OPTIONS)
    add_OrchestratorServicer_to_server(Orchestrator(Store(path)), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2]))
