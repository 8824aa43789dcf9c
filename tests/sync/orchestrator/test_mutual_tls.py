"""gRPC with certificates: whom the orchestrator lets in, and whom its callers believe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from kernel import clock
from sync_stack.rpc.authority import Authority, CertificateUsage
from sync_stack.rpc.channel import SERVER_OPTIONS, OrchestratorChannel
from sync_stack.rpc.first_start import prepare
from sync_stack.rpc.gen.partita.sync.v1 import orchestrator_pb2 as pb
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2_grpc import (
    OrchestratorStub,
    add_OrchestratorServicer_to_server,
)
from sync_stack.rpc.readiness import Health, keep_pinging
from sync_stack.rpc.tls import (
    AUTO_CLIENT,
    AUTO_SERVER,
    TlsFiles,
    TlsPair,
    auto_files,
    server_credentials,
)
from tests.sync.orchestrator.test_grpc_callers import service
from tests.sync.orchestrator.test_webhook_stream import status_of_stream

WEBHOOK = pb.ProcessWebhookRequest(platform="x", datasource="y", idempotency_key="k")
HEAL = pb.TriggerSyncRequest(datasource="sink", rule_id="shop", idempotency_key="k")
TASK = pb.GetTaskRequest(task_id="none")
LONG_AGO = timedelta(days=400)


class Files:
    """What a first start made, and pairs that others might show."""

    def __init__(self, folder: Path, *, age: timedelta = timedelta()) -> None:
        self.folder = folder
        prepare(folder, clock.now() - age)
        self.server = self._auto(folder, AUTO_SERVER)
        self.gateway = self._auto(folder / "gateway", AUTO_CLIENT)
        self.watcher = self._auto(folder / "watcher", AUTO_CLIENT)

    def _auto(self, folder: Path, names: tuple[str, str]) -> TlsFiles:
        found = auto_files(folder, names)
        assert found is not None
        return found

    def pair(
        self,
        *names: str,
        usage: CertificateUsage = CertificateUsage.CLIENT,
        age: timedelta | None = None,
    ) -> TlsFiles:
        """Signed by the stack's own authority."""
        own = TlsFiles(cert=self.folder / "authority.crt", key=self.folder / "authority.key")
        signed = Authority.read(own.read()).pair(names, usage, clock.now() - (age or timedelta()))
        return self._written(signed, self.folder / "ca.crt")

    def stranger(self, *names: str, usage: CertificateUsage = CertificateUsage.CLIENT) -> TlsFiles:
        """Signed by another authority of the same kind; it trusts ours."""
        now = clock.now()
        other = Authority.read(Authority.create(now))
        return self._written(other.pair(names, usage, now), self.folder / "ca.crt")

    def _written(self, pair: TlsPair, ca: Path) -> TlsFiles:
        files = TlsFiles(cert=self.folder / "other.crt", key=self.folder / "other.key", ca=ca)
        files.cert.write_bytes(pair.cert)
        files.key.write_bytes(pair.key)
        return files


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "state")


@asynccontextmanager
async def serving(world: Any, server: TlsFiles) -> AsyncIterator[str]:
    """The orchestrator's service behind that certificate; its address."""
    made = grpc.aio.server(options=SERVER_OPTIONS)
    add_OrchestratorServicer_to_server(service(world, identities=True), made)
    port = made.add_secure_port("127.0.0.1:0", server_credentials(server))
    await made.start()
    try:
        yield f"localhost:{port}"
    finally:
        await made.stop(0)


async def status(call: Any) -> str:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    return "OK"


async def outcomes(address: str, client: TlsFiles | None) -> tuple[str, str, str, str]:
    """Of ProcessWebhook, TriggerSync, GetTask and Ping."""
    channel = OrchestratorChannel(address, client)
    stub = channel.stub
    try:
        return (
            await status(stub.ProcessWebhook(WEBHOOK, timeout=30)),
            await status(stub.TriggerSync(HEAL, timeout=30)),
            await status(stub.GetTask(TASK, timeout=30)),
            await status(stub.Ping(pb.PingRequest(), timeout=30)),
        )
    finally:
        await channel.close(0)


REFUSED = ("UNAVAILABLE",) * 4
DENIED = "PERMISSION_DENIED"


async def test_each_identity_may_call_its_own_methods(world, files):
    """Sync invariant 27."""
    async with serving(world, files.server) as address:
        assert await outcomes(address, files.gateway) == ("NOT_FOUND", DENIED, DENIED, "OK")
        watcher = await outcomes(address, files.watcher)
        assert watcher == (DENIED, "FAILED_PRECONDITION", "NOT_FOUND", "OK")
        guest = await outcomes(address, files.pair("guest"))
        assert guest == (DENIED, DENIED, DENIED, DENIED)


async def test_only_the_gateway_may_open_a_stream_of_webhooks(world, files):
    """Sync invariant 27."""
    async with serving(world, files.server) as address:
        for client, expected in (
            (files.gateway, "OK"),
            (files.watcher, DENIED),
            (files.pair("guest"), DENIED),
        ):
            channel = OrchestratorChannel(address, client)
            assert await status_of_stream(channel.stub, pb.ProcessWebhookBatch()) == expected
            await channel.close(0)


async def test_without_a_certificate_that_the_authority_signed_nobody_gets_in(world, files):
    """Sync invariant 27."""
    async with serving(world, files.server) as address:
        assert await outcomes(address, None) == REFUSED
        assert await outcomes(address, files.stranger("gateway")) == REFUSED
        assert await outcomes(address, files.pair("gateway", age=LONG_AGO)) == REFUSED
        trusting = grpc.ssl_channel_credentials((files.folder / "ca.crt").read_bytes())
        async with grpc.aio.secure_channel(address, trusting) as channel:
            bare = OrchestratorStub(channel)
            assert await status(bare.ProcessWebhook(WEBHOOK, timeout=30)) == "UNAVAILABLE"
        assert await outcomes(address, files.gateway) != REFUSED


def an_expired_server(files: Files) -> TlsFiles:
    return files.pair("orchestrator-api", "localhost", usage=CertificateUsage.SERVER, age=LONG_AGO)


def a_server_of_another_authority(files: Files) -> TlsFiles:
    return files.stranger("orchestrator-api", "localhost", usage=CertificateUsage.SERVER)


def a_server_of_another_name(files: Files) -> TlsFiles:
    return files.pair("elsewhere", usage=CertificateUsage.SERVER)


def a_client_that_serves(files: Files) -> TlsFiles:
    return files.pair("localhost", usage=CertificateUsage.CLIENT)


@pytest.mark.parametrize(
    "server",
    [
        an_expired_server,
        a_server_of_another_authority,
        a_server_of_another_name,
        a_client_that_serves,
    ],
)
async def test_gateway_and_watcher_believe_no_other_server(
    server: Callable[[Files], TlsFiles], world, files
):
    """Sync invariant 27."""
    async with serving(world, server(files)) as address:
        assert await outcomes(address, files.gateway) == REFUSED
        assert await outcomes(address, files.watcher) == REFUSED


async def detail(address: str, client: TlsFiles) -> tuple[bool, str]:
    """What a watcher's readiness says after a ping."""
    channel = OrchestratorChannel(address, client)
    health = Health(list, asyncio.get_running_loop().time)
    heard = asyncio.Event()
    asking = asyncio.create_task(
        keep_pinging(channel, health, token="", observe=lambda _status, _seconds: heard.set())
    )
    await asyncio.wait_for(heard.wait(), 30)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await channel.close(0)
    return health.state()


async def test_readiness_names_a_certificate_that_expired(world, files, caplog, monkeypatch):
    monkeypatch.setattr("kernel.background._watched", set())  # the loops of earlier tests
    async with serving(world, files.server) as address:
        assert await detail(address, files.watcher) == (True, "")
        late = files.pair("watcher", age=LONG_AGO)
        ready, said = await detail(address, late)
    assert not ready
    assert f"UNAVAILABLE ({late.cert} expired on " in said
    assert "calls will fail" in caplog.text


async def test_a_renewed_set_is_taken_by_both_sides_without_a_restart(world, tmp_path):
    """Old root and new one are trusted together while certificates change."""
    files = Files(tmp_path / "state", age=timedelta(days=336))
    async with serving(world, files.server) as address:
        channel = OrchestratorChannel(address, files.watcher)
        assert await status(channel.stub.Ping(pb.PingRequest(), timeout=30)) == "OK"
        before = files.watcher.read()

        prepare(files.folder, clock.now() - timedelta(days=1, hours=12))
        assert files.watcher.read().cert == before.cert
        prepare(files.folder, clock.now())
        changed = asyncio.Event()
        watching = asyncio.create_task(channel.watch_files(0.01, changed.set))
        await asyncio.wait_for(changed.wait(), 30)

        assert files.watcher.read().cert != before.cert
        assert await status(channel.stub.Ping(pb.PingRequest(), timeout=30)) == "OK"
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await channel.close(0)
