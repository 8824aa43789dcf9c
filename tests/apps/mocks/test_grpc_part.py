"""The listener of gRPC as a part of the server, and what it makes of hostile protos."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.mocks import conf
from apps.mocks.components import is_own_secret
from apps.mocks.lifespan import GrpcPart, MocksPart
from mocks.grpc import protos
from mocks.grpc.protos import compile_protos

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


def nested(depth: int) -> str:
    return HEAD + SERVICE + "message N {" * depth + "}" * depth


def everything_imports_everything(count: int) -> dict[str, bytes]:
    imports = "".join(f'import "f{n}.proto";\n' for n in range(count))
    return {
        f"api/f{n}.proto": f'syntax = "proto3";\npackage p{n};\n{imports}{SERVICE}'.encode()
        for n in range(count)
    }


HOSTILE = {
    "no proto": b"\x00\xff\xfe" * 100,
    "no end": (HEAD + "message A {").encode(),
    "deep": nested(5_000).encode(),
    "imports itself": (HEAD + 'import "a.proto";' + SERVICE).encode(),
    "imports files of the host": (HEAD + 'import "/etc/passwd";' + SERVICE).encode(),
    "imports a folder above": (HEAD + 'import "../../../etc/passwd";' + SERVICE).encode(),
    "unknown type": (HEAD + "service S { rpc Get(Nope) returns (Nope); }").encode(),
    "huge number": (HEAD + "message A { string x = 99999999999999999999; }" + SERVICE).encode(),
    "quoted import": (HEAD + 'import "a\\"b.proto";' + SERVICE).encode(),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_proto_has_no_services_and_a_problem(case: str):
    found = compile_protos({"api/a.proto": HOSTILE[case]})
    assert not found.methods
    assert found.problem or case in ("no proto", "no end")
    assert "root:" not in found.problem  # of /etc/passwd


@pytest.mark.slow
def test_one_broken_proto_costs_its_own_services_alone():
    found = compile_protos(
        {
            "api/good.proto": (HEAD + SERVICE).encode(),
            "api/bad.proto": b'syntax = "proto3";\nservice B { rpc G(No) returns (No); }',
        }
    )
    assert list(found.methods) == ["/deep.S/Get"]
    assert "bad.proto" in found.problem


@pytest.mark.slow
def test_two_files_with_the_same_names_do_not_fail():
    same = (HEAD + SERVICE).encode()
    found = compile_protos({"api/v1/a.proto": same, "api/v2/a.proto": same})
    assert list(found.methods) == ["/deep.S/Get"]
    assert found.problem


@pytest.mark.slow
def test_import_bombs_end_within_the_limits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protos, "CPU_S", 1)
    monkeypatch.setattr(protos, "WALL_S", 10.0)
    begun = time.process_time()
    found = compile_protos(everything_imports_everything(300))
    assert time.process_time() - begun < 2  # of this process
    assert found.problem


def test_too_many_or_too_large_protos_are_refused():
    many = {f"api/f{n}.proto": b"" for n in range(protos.MAX_FILES + 1)}
    assert "too many" in compile_protos(many).problem
    assert "too large" in compile_protos({"api/a.proto": b" " * (protos.MAX_TEXT + 1)}).problem


@pytest.mark.slow
def test_a_set_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protos, "MAX_SET", 1_000)
    fields = "".join(f"string field_{n} = {n};" for n in range(1, 200))
    found = compile_protos({"api/a.proto": (HEAD + SERVICE + f"message B {{ {fields} }}").encode()})
    assert not found.methods
    assert found.problem


@pytest.mark.slow
def test_paths_that_could_be_options_or_leave_the_folder_are_left_out():
    named = ("-I.proto", "@a.proto", "../a.proto", "a/../../b.proto", "/etc/a.proto", "a b.proto")
    assert not protos.protos_in({f"api/{each}": (HEAD + SERVICE).encode() for each in named})
