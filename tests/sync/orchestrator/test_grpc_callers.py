"""Who may call what over gRPC."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
import pytest

from sync_stack.orchestrator.server.grpc_service import Orchestrator, ServiceSettings
from sync_stack.orchestrator.server.metrics import OrchestratorMetrics
from sync_stack.rpc.channel import SERVER_OPTIONS
from sync_stack.rpc.gen.partita.sync.v1 import orchestrator_pb2 as pb
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2_grpc import (
    OrchestratorStub,
    add_OrchestratorServicer_to_server,
)


def service(world, **settings: Any) -> Orchestrator:
    return Orchestrator(
        bundle=lambda: world.bundle,
        publish=world.published.extend,
        ready=lambda: (True, ""),
        settings=ServiceSettings(**settings),
        metrics=OrchestratorMetrics(),
    )


class Calls:
    def __init__(self, served: Orchestrator) -> None:
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        add_OrchestratorServicer_to_server(served, self._server)
        self._port = self._server.add_insecure_port("127.0.0.1:0")

    async def __aenter__(self) -> Any:
        await self._server.start()
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{self._port}")
        return OrchestratorStub(self._channel)

    async def __aexit__(self, *_facts: Any) -> None:
        await self._channel.close()
        await self._server.stop(0)


async def status_of(call) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return str(caught.value.code().name)


async def test_a_token_is_required_when_there_is_one(world):
    """Sync invariant 27."""
    async with Calls(service(world, token="the-token")) as stub:
        assert await status_of(stub.Ping(pb.PingRequest())) == "UNAUTHENTICATED"
        wrong = (("authorization", "Bearer other"),)
        assert await status_of(stub.Ping(pb.PingRequest(), metadata=wrong)) == "UNAUTHENTICATED"
        right = (("authorization", "Bearer the-token"),)
        assert (await stub.Ping(pb.PingRequest(), metadata=right)).ready


async def test_with_certificates_an_unknown_identity_may_nothing(world):
    """Sync invariant 27."""
    async with Calls(service(world, identities=True)) as stub:
        request = pb.ProcessWebhookRequest(platform="github", datasource="sink")
        assert await status_of(stub.ProcessWebhook(request)) == "PERMISSION_DENIED"


async def test_facts_become_status_codes(world):
    """Sync invariant 33."""
    async with Calls(service(world)) as stub:
        unknown = pb.ProcessWebhookRequest(platform="x", datasource="y", idempotency_key="k")
        assert await status_of(stub.ProcessWebhook(unknown)) == "NOT_FOUND"
        keyless = pb.ProcessWebhookRequest(platform="github", datasource="sink")
        assert await status_of(stub.ProcessWebhook(keyless)) == "INVALID_ARGUMENT"
        assert await status_of(stub.GetTask(pb.GetTaskRequest(task_id="none"))) == "NOT_FOUND"
        heal = pb.TriggerSyncRequest(datasource="sink", rule_id="shop", idempotency_key="k")
        assert await status_of(stub.TriggerSync(heal)) == "FAILED_PRECONDITION"
        heal = pb.TriggerSyncRequest(rule_id="shop", idempotency_key="k")
        assert await status_of(stub.TriggerSync(heal)) == "INVALID_ARGUMENT"
        heal = pb.TriggerSyncRequest(datasource="other", rule_id="shop", idempotency_key="k")
        assert await status_of(stub.TriggerSync(heal)) == "NOT_FOUND"
