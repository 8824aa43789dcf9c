"""A gateway on loopback ports, and an orchestrator that does what the test says."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx

from sync_stack.configuration.conf import BundleSettings
from sync_stack.configuration.secrets import SecretUnavailable
from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.model import Bundle, GatewayLimits, Rate
from sync_stack.core.bundle.platforms import Platform
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.gateway.conf import Address, GatewaySettings
from sync_stack.gateway.process import Gateway
from sync_stack.rpc.channel import SERVER_OPTIONS
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2 import (
    PingResponse,
    ProcessWebhookBatchResult,
    ProcessWebhookRequest,
    ProcessWebhookResponse,
)
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2_grpc import (
    OrchestratorServicer,
    add_OrchestratorServicer_to_server,
)
from sync_stack.sinks.file import FileOptions
from tests.support.webhooks import github_push, platform, signed

WIDE = GatewayLimits(
    rate_global=Rate(rate=10_000, burst=10_000),
    rate_per_ip=Rate(rate=10_000, burst=10_000),
    rate_per_key=Rate(rate=10_000, burst=10_000),
    forward_timeout_s=1.0,
)


class Resolver:
    """Values as written; a reference by path is a manager that is away."""

    def resolve(self, ref: SecretRef) -> str:
        if ref.path:
            raise SecretUnavailable(f"{ref}: no answer")
        return ref.value


@dataclass
class Orchestrator(OrchestratorServicer):
    """`failing`: the status of every call; `gate`, when set, is waited for.

    `streams` False: one that does not know ProcessWebhooks. Batches are answered side by side.
    """

    failing: grpc.StatusCode | None = None
    gate: asyncio.Event | None = None
    ready: bool = True
    streams: bool = True
    batches: list[int] = field(default_factory=list)
    calls: list[ProcessWebhookRequest] = field(default_factory=list)
    metadata: list[dict[str, str]] = field(default_factory=list)
    tasks: dict[str, str] = field(default_factory=dict)

    async def ProcessWebhook(  # noqa: N802 - the name in the proto
        self, request: Any, context: Any
    ) -> ProcessWebhookResponse:
        self.calls.append(request)
        self.metadata.append(dict(context.invocation_metadata()))
        if self.gate is not None:
            await self.gate.wait()
        if self.failing is not None:
            await context.abort(self.failing, "as the test says")
        return self._answer(request)

    async def ProcessWebhooks(self, requests: Any, context: Any) -> None:  # noqa: N802
        if not self.streams:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        turn = asyncio.Lock()
        async with asyncio.TaskGroup() as answering:
            async for batch in requests:
                self.batches.append(len(batch.webhooks))
                _ = answering.create_task(self._answer_batch(batch, context, turn))

    async def _answer_batch(self, batch: Any, context: Any, turn: asyncio.Lock) -> None:
        opened = dict(context.invocation_metadata())
        for each in batch.webhooks:
            self.calls.append(each.request)
            self.metadata.append(
                opened
                | {
                    "traceparent": each.traceparent,
                    "x-correlation-id": each.request.correlation_id,
                }
            )
        if self.gate is not None:
            await self.gate.wait()
        result = ProcessWebhookBatchResult()
        for each in batch.webhooks:
            answer = result.results.add(idempotency_key=each.request.idempotency_key)
            if self.failing is None:
                answer.response.CopyFrom(self._answer(each.request))
            else:
                answer.code, answer.detail = self.failing.value[0], "as the test says"
        async with turn:
            await context.write(result)

    def _answer(self, request: ProcessWebhookRequest) -> ProcessWebhookResponse:
        duplicate = request.idempotency_key in self.tasks
        task = self.tasks.setdefault(request.idempotency_key, str(uuid.uuid4()))
        return ProcessWebhookResponse(task_id=task, message="accepted", duplicate=duplicate)

    async def Ping(self, _request: Any, _context: Any) -> PingResponse:  # noqa: N802
        return PingResponse(version="test", ready=self.ready, detail="store is away")


@contextlib.asynccontextmanager
async def serving(
    orchestrator: Orchestrator, *, port: int = 0, credentials: Any = None
) -> AsyncIterator[int]:
    server = grpc.aio.server(options=SERVER_OPTIONS)
    add_OrchestratorServicer_to_server(orchestrator, server)
    address = f"127.0.0.1:{port}"
    port = (
        server.add_secure_port(address, credentials)
        if credentials
        else server.add_insecure_port(address)
    )
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)


def bundle(*platforms: Platform, **fields: Any) -> Bundle:
    """A rule for each platform, all behind `/webhooks/mongo`."""
    platforms = platforms or (platform(),)
    rules = tuple(
        Rule(
            name=each.name,
            platform=each.name,
            datasource="mongo",
            segment="mongo",
            repositories=("acme/*",),
        )
        for each in platforms
    )
    store = Datasource(name="mongo", kind="file", options=FileOptions(root="/nowhere"))
    made = Bundle(platforms=platforms, datasources=(store,), rules=rules, gateway=WIDE)
    return replace(made, **fields)


def limits(**fields: Any) -> GatewayLimits:
    return replace(WIDE, **fields)


@dataclass
class World:
    gateway: Gateway
    client: httpx.AsyncClient
    admin: httpx.AsyncClient
    orchestrator: Orchestrator

    @property
    def port(self) -> int:
        return self.gateway.webhooks.port

    async def send(
        self, body: bytes | None = None, *, segment: str = "mongo", **kwargs: Any
    ) -> httpx.Response:
        """A signed push; `headers` are laid over its own, None takes one away."""
        content = github_push() if body is None else body
        over = kwargs.pop("headers", {})
        headers = {**signed(content, **kwargs), **over}
        given = {name: value for name, value in headers.items() if value is not None}
        return await self.client.post(f"/webhooks/{segment}", content=content, headers=given)

    async def metrics(self) -> str:
        return (await self.admin.get("/metrics")).text


@contextlib.asynccontextmanager
async def world(
    given: Bundle | None = None, *, orchestrator: Orchestrator | None = None, **settings: Any
) -> AsyncIterator[World]:
    orchestrator = orchestrator or Orchestrator()
    async with serving(orchestrator) as port:
        made = GatewaySettings(
            **{
                "listen": Address(host="127.0.0.1", port=0),
                "admin": Address(host="127.0.0.1", port=0),
                "orchestrator": f"127.0.0.1:{port}",
                "app_env": "test",
                "log_level": "INFO",
                "bundle": BundleSettings(path=Path("config.cue")),
                **settings,
            }
        )
        gateway = Gateway(made, given or bundle(), Resolver())
        await gateway.start()
        url = f"http://127.0.0.1:{gateway.webhooks.port}"
        admin = f"http://127.0.0.1:{gateway.admin.port}"
        try:
            async with (
                httpx.AsyncClient(base_url=url, timeout=20) as client,
                httpx.AsyncClient(base_url=admin) as admin_client,
            ):
                yield World(gateway, client, admin_client, orchestrator)
        finally:
            await stopped(gateway)


async def stopped(gateway: Gateway) -> None:
    """Without the pause in which balancers look away."""
    await gateway.stop(listening_on_s=0)


async def raw(port: int, *parts: bytes, pause_s: float = 0.0) -> bytes:
    """What comes back for these bytes until the gateway closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            await asyncio.sleep(pause_s)
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def answer(response: httpx.Response) -> tuple[int, str]:
    """Status and code; every error body has exactly the three members."""
    body = response.json()
    assert response.headers["content-type"] == "application/json"
    if response.status_code >= 400:
        assert set(body) == {"code", "message", "status"}
        assert body["status"] == response.status_code
    return response.status_code, body.get("code", body.get("message"))
