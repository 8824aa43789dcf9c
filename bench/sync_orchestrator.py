"""`python -m bench.sync_orchestrator PORT`: an orchestrator that stores nothing and says yes."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import grpc.aio
import uvloop

from sync_stack.rpc.channel import SERVER_OPTIONS
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2 import (
    PingResponse,
    ProcessWebhookResponse,
)
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2_grpc import (
    OrchestratorServicer,
    add_OrchestratorServicer_to_server,
)


class Yes(OrchestratorServicer):
    async def ProcessWebhook(  # noqa: N802 - the name in the proto
        self, request: Any, _context: Any
    ) -> ProcessWebhookResponse:
        return ProcessWebhookResponse(task_id=request.idempotency_key, message="accepted")

    async def Ping(self, _request: Any, _context: Any) -> PingResponse:  # noqa: N802
        return PingResponse(ready=True)


async def serve(port: int) -> None:
    server = grpc.aio.server(options=SERVER_OPTIONS)
    add_OrchestratorServicer_to_server(Yes(), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
