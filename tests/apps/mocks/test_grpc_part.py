"""The listener of gRPC as a part of the server."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import grpc
import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.mocks import conf
from apps.mocks.components import is_own_secret
from apps.mocks.lifespan import GrpcPart, MocksPart

HEAD = 'syntax = "proto3";\npackage deep;\n'
SERVICE = "message A { string x = 1; }\nservice S { rpc Get(A) returns (A); }\n"


@pytest.mark.parametrize("text", ["here", "127.0.0.1:", "127.0.0.1:x", "host:99999", "[::1]"])
def test_an_invalid_address_is_named(settings: Any, text: str):
    settings.MOCK_GRPC_ADDR = text
    with pytest.raises(ImproperlyConfigured, match="MOCK_GRPC_ADDR"):
        conf.grpc_address()


def test_addresses(settings: Any):
    settings.MOCK_GRPC_ADDR = ":8092"
    assert conf.grpc_address() == ("0.0.0.0", 8092)
    settings.MOCK_GRPC_ADDR = "[::1]:8092"
    assert conf.grpc_address() == ("::1", 8092)


def test_invalid_networks_are_named(settings: Any):
    settings.MOCK_PROXY_ALLOW_CIDRS = ["10.0.0.0/8", "10.0.0.300"]
    with pytest.raises(ImproperlyConfigured, match="MOCK_PROXY_ALLOW_CIDRS"):
        conf.proxy_networks()


def test_own_secrets_are_known(settings: Any):
    settings.MOCK_SHARED_SECRET = "shared-secret"
    assert is_own_secret("shared-secret")
    assert is_own_secret(settings.JWT_SECRET)
    assert is_own_secret("pat_anything")
    assert is_own_secret("pci_anything")
    assert not is_own_secret("Bearer theirs")
    assert not is_own_secret("")


@pytest.mark.django_db(transaction=True)
async def test_the_server_lists_the_services_of_its_suites(settings: Any, tmp_path: Path):
    hello = Path(settings.BASE_DIR, "examples/oci-suites/hello")
    shutil.copytree(hello, tmp_path / "hello")
    (tmp_path / "hello/api").mkdir(exist_ok=True)
    (tmp_path / "hello/api/deep.proto").write_text(HEAD + SERVICE)
    settings.SUITES_DIR = tmp_path
    settings.MOCK_GRPC_ADDR = "127.0.0.1:0"
    mocks, part = MocksPart(), GrpcPart()
    await mocks.start()
    await part.start()
    try:
        assert part._server is not None
        async with grpc.aio.insecure_channel(f"127.0.0.1:{part._server.port}") as channel:
            assert await channel.unary_unary("/deep.S/Get")(b"") == b"\x0a\x06string"  # a sample
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await channel.unary_unary("/deep.Other/Get")(b"")
            assert failed.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    finally:
        await part.stop()
        await mocks.stop()


async def test_without_an_address_nothing_listens(settings: Any):
    settings.MOCK_GRPC_ADDR = ""
    part = GrpcPart()
    await part.start()
    assert part._server is None
    await part.stop()


async def test_an_address_that_is_not_ours_stops_the_start(settings: Any):
    settings.MOCK_GRPC_ADDR = "192.0.2.1:8092"
    with pytest.raises(ImproperlyConfigured, match="MOCK_GRPC_ADDR"):
        await GrpcPart().start()
