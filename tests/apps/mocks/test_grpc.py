"""Mocks by gRPC: a client that knows nothing but reflection gets the examples of a suite."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from mocks.errors import PortTaken
from mocks.grpc import methods
from mocks.grpc.messages import Codec
from mocks.grpc.server import GrpcServer
from surfaces.protos import compile_protos
from tests.support.grpc_mocks import REFLECTION, REFLECTION_V1, GrpcMocks, content_of, grpc_mocks

COMMON = """
syntax = "proto3";
package shop.v1;
enum Level { LEVEL_UNKNOWN = 0; LEVEL_GOLD = 1; }
message Money { int64 cents = 1; string currency = 2; }
"""
PROTO = """
syntax = "proto3";
package shop.v1;
import "common.proto";
import "google/protobuf/timestamp.proto";
import "google/api/annotations.proto";

message OrderRequest { string order_id = 1; bool express = 2; repeated string tags = 3; }
message Order {
  string order_id = 1;
  Money total = 2;
  Level level = 3;
  google.protobuf.Timestamp made_at = 4;
  map<string, string> labels = 5;
  bytes seal = 6;
}
service Orders {
  // Returns one order.
  rpc GetOrder(OrderRequest) returns (Order) { option (google.api.http) = {get: "/orders"}; }
  rpc WatchOrders(OrderRequest) returns (stream Order);
  rpc ImportOrders(stream OrderRequest) returns (Order);
  rpc Chat(stream OrderRequest) returns (stream Order);
  rpc Fixed(OrderRequest) returns (Order);
  rpc Broken(OrderRequest) returns (Order);
  rpc Slow(OrderRequest) returns (Order);
  rpc Sampled(OrderRequest) returns (Order);
  rpc Picky(OrderRequest) returns (Order);
}
"""
MOCKS = {
    "GetOrder": """
examples:
  missing:
    when: [{from: body, param: orderId, value: "404"}]
    response: {status: "5", headers: {x-why: gone}, body: {message: "no such order"}}
  express:
    when: [{from: body, param: express, value: "true"}]
    response:
      headers: {X-Lane: fast}
      body: {orderId: "{{request.body.orderId}}", level: LEVEL_GOLD}
  tenant:
    when: [{from: header, param: x-tenant, value: acme}]
    response: {body: {orderId: "acme-{{request.body.orderId}}"}}
  plain:
    response:
      body:
        orderId: "{{request.body.orderId}}"
        total: {cents: "1250", currency: EUR}
        madeAt: "2026-01-31T12:00:00Z"
        labels: {a: b}
        seal: aGk=
""",
    "WatchOrders": """
examples:
  none: {when: [{from: body, param: orderId, value: none}], response: {body: []}}
  one: {when: [{from: body, param: orderId, value: one}], response: {body: {orderId: single}}}
  all:
    response: {body: [{orderId: "1"}, {orderId: "2"}, {orderId: "{{request.body.orderId}}"}]}
""",
    "ImportOrders": 'examples: {last: {response: {body: {orderId: "{{request.body.orderId}}"}}}}',
    "Chat": """
examples:
  twice:
    when: [{from: body, param: express, value: "true"}]
    response: {body: [{orderId: "{{request.body.orderId}}"}, {orderId: again}]}
  once: {response: {body: {orderId: "{{request.body.orderId}}"}}}
""",
    "Fixed": "examples: {fixed: {response: {headers: {X-Kind: fixed}, body: {orderId: fixed}}}}",
    "Picky": """
examples:
  one: {when: [{from: body, param: orderId, value: one}], response: {body: {orderId: one}}}
""",
    "Broken": "examples: {odd: {response: {body: {nope: 1}}}}",
    "Unmocked": """
examples: {other: {when: [{from: header, param: x-never, value: sent}], response: {body: {}}}}
""",
    "Slow": "spec: {delayMillis: 60000}\nexamples: {late: {response: {body: {orderId: late}}}}",
}
EXTRA = {
    "GetOrder": "parameterConstraints: [{name: x-region, source: header, pattern: '^[a-z]+$'}]",
}


def files() -> dict[str, str]:
    texts = {"api/shop/common.proto": COMMON, "api/shop/orders.proto": PROTO}
    for name, text in MOCKS.items():
        spec, _, examples = text.partition("examples:")
        head = f"metadata: {{operationId: {name}, sourceArtifact: api/shop/orders.proto}}"
        lines = ["kind: MockOperation", head, "spec:", "  adapter: grpc"]
        if name in EXTRA:
            lines.append(f"  {EXTRA[name]}")
        if "delayMillis" in spec:
            lines.append("  delayMillis: 60000")
        texts[f"mock/orders/{name}.metadata.yaml"] = "\n".join(lines) + "\n"
        texts[f"mock/orders/{name}.yaml"] = f"examples:{examples}"
    return texts


@pytest.fixture
async def mocks() -> AsyncIterator[GrpcMocks]:
    async with grpc_mocks({"shop": content_of("shop", files())}) as made:
        yield made


ORDERS = "/shop.v1.Orders"


async def test_reflection_lists_and_describes_the_services(mocks: GrpcMocks):
    assert "shop.v1.Orders" in await mocks.services()
    assert await mocks.services() == await mocks.services(path=REFLECTION_V1)
    pool = await mocks.files_of("shop.v1.Orders.GetOrder", path=REFLECTION_V1)
    service = pool.FindServiceByName("shop.v1.Orders")
    assert [each.name for each in service.methods][:2] == ["GetOrder", "WatchOrders"]
    assert service.FindMethodByName("Chat").client_streaming
    answer = await mocks.asked(file_by_filename="shop/common.proto")
    assert answer.file_descriptor_response.file_descriptor_proto
    answer = await mocks.asked(file_containing_symbol="shop.v1.Nope")
    assert answer.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    answer = await mocks.asked(all_extension_numbers_of_type="shop.v1.Order")
    assert answer.all_extension_numbers_response.base_type_name == "shop.v1.Order"
    answer = await mocks.asked()
    assert answer.error_response.error_code == grpc.StatusCode.INVALID_ARGUMENT.value[0]


OWN = ("grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
       "grpc.reflection.v1alpha.ServerReflection")  # fmt: skip


@pytest.mark.parametrize("path", [REFLECTION, REFLECTION_V1])
async def test_all_that_reflection_lists_it_describes(mocks: GrpcMocks, path: str):
    listed = await mocks.services(path=path)
    assert listed == sorted([*OWN, "shop.v1.Orders"])
    for name in listed:
        pool = await mocks.files_of(name, path=path)
        assert pool.FindServiceByName(name).methods
    checked = await mocks.call("/grpc.health.v1.Health/Check", {"service": "shop.v1.Orders"})
    assert checked.message == {"status": "SERVING"}
    each = await mocks.call("/grpc.health.v1.Health/List", {})
    assert each.message == {"statuses": {name: {"status": "SERVING"} for name in listed}}


async def test_reflection_finds_extensions_of_any_space():
    extended = {"api/b.proto": """
syntax = "proto2";
package b;
message Base { extensions 10 to 20; }
extend Base { optional string more = 12; }
service S { rpc Get(Base) returns (Base); }
"""}  # fmt: skip
    contents = {"shop": content_of("shop", files()), "b": content_of("b", extended)}
    async with grpc_mocks(contents) as mocks:
        answer = await mocks.asked(all_extension_numbers_of_type="b.Base")
        assert list(answer.all_extension_numbers_response.extension_number) == [12]
        wanted = {"containing_type": "b.Base", "extension_number": 12}
        answer = await mocks.asked(file_containing_extension=wanted)
        assert answer.file_descriptor_response.file_descriptor_proto
        wanted["extension_number"] = 13
        answer = await mocks.asked(file_containing_extension=wanted)
        assert answer.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


async def test_the_reflection_client_of_grpc_reads_it(mocks: GrpcMocks):
    def described() -> tuple[list[str], str]:
        with grpc.insecure_channel(f"127.0.0.1:{mocks.server.port}") as channel:
            database = ProtoReflectionDescriptorDatabase(channel)
            file = database.FindFileContainingSymbol("shop.v1.Orders")
            return list(database.get_services()), file.name

    services, file = await asyncio.to_thread(described)
    assert "shop.v1.Orders" in services
    assert file == "shop/orders.proto"


async def test_unary_calls_get_the_example_that_matches(mocks: GrpcMocks):
    plain = await mocks.call(f"{ORDERS}/GetOrder", {"orderId": "7"})
    assert plain.code is grpc.StatusCode.OK
    assert plain.message == {
        "orderId": "7", "total": {"cents": "1250", "currency": "EUR"},
        "madeAt": "2026-01-31T12:00:00Z", "labels": {"a": "b"}, "seal": "aGk=",
    }  # fmt: skip
    assert plain.trailing["x-partita-mock-example"] == "plain"
    express = await mocks.call(f"{ORDERS}/GetOrder", {"orderId": "8", "express": True})
    assert express.message == {"orderId": "8", "level": "LEVEL_GOLD"}
    assert express.initial["x-lane"] == "fast"
    tenant = await mocks.call(
        f"{ORDERS}/GetOrder", {"orderId": "9"}, metadata=[("x-tenant", "acme")]
    )
    assert tenant.message == {"orderId": "acme-9"}


async def test_the_journal_has_the_tag_of_the_metadata(mocks: GrpcMocks):
    for method in ("GetOrder", "Fixed", "Fixed"):
        tag = [("x-partita-mock-tag", f"t/{method}")]
        await mocks.call(f"{ORDERS}/{method}", {"orderId": "7"}, metadata=tag)

    entries = await mocks.journal.entries("shop")
    assert [each.tag for each in entries] == ["t/Fixed", "t/Fixed", "t/GetOrder"]
    assert await mocks.journal.clear("shop", tag="t/Fixed") == 2


async def test_an_answer_that_never_changes_is_ready(mocks: GrpcMocks):
    for _ in range(3):
        fixed = await mocks.call(f"{ORDERS}/Fixed", {"orderId": "x"})
        assert fixed.message == {"orderId": "fixed"}
        assert fixed.initial["x-kind"] == "fixed"
        assert fixed.trailing["x-partita-mock-example"] == "fixed"
    entries = await mocks.journal.entries("shop")
    assert [each.operation_id for each in entries] == ["Fixed"] * 3
    assert mocks.counted.count(("grpc", "example", "example")) == 3
    raw = mocks.channel.unary_unary(f"{ORDERS}/Fixed")
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await raw(b"\xff\xff\xff")
    assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_status_code_of_an_example_ends_the_call(mocks: GrpcMocks):
    missing = await mocks.call(f"{ORDERS}/GetOrder", {"orderId": "404"})
    assert (missing.code, missing.details) == (grpc.StatusCode.NOT_FOUND, "no such order")
    assert missing.trailing["x-why"] == "gone"
    assert missing.trailing["x-partita-mock-example"] == "missing"


async def test_streams_give_a_message_for_each_of_a_list(mocks: GrpcMocks):
    async def watched(order_id: str) -> list[str]:
        called = await mocks.call(f"{ORDERS}/WatchOrders", {"orderId": order_id})
        return [each["orderId"] for each in called.messages]

    assert await watched("x") == ["1", "2", "x"]
    assert await watched("one") == ["single"]
    assert await watched("none") == []


async def test_a_method_without_a_mock_answers_with_a_sample(mocks: GrpcMocks):
    sample = await mocks.call(f"{ORDERS}/Sampled", {})
    assert sample.code is grpc.StatusCode.OK
    assert sample.message["orderId"]


async def test_client_streams_are_answered_by_their_last_or_by_each_message(mocks: GrpcMocks):
    sent: list[dict[str, Any]] = [
        {"orderId": "1"},
        {"orderId": "2", "express": True},
        {"orderId": "3"},
    ]
    imported = await mocks.call(f"{ORDERS}/ImportOrders", *sent)
    assert imported.message == {"orderId": "3"}
    empty = await mocks.call(f"{ORDERS}/ImportOrders")
    assert empty.messages == [{}]
    chat = await mocks.call(f"{ORDERS}/Chat", *sent)
    assert [each["orderId"] for each in chat.messages] == ["1", "2", "again", "3"]


async def test_health_follows_the_services(mocks: GrpcMocks):
    async def check(service: str, kind: str = "Check") -> Any:
        make = mocks.channel.unary_unary if kind == "Check" else mocks.channel.unary_stream
        call = make(
            f"/grpc.health.v1.Health/{kind}",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )(health_pb2.HealthCheckRequest(service=service))
        if kind == "Check":
            return (await call).status
        status = (await call.read()).status
        call.cancel()
        return status

    serving = health_pb2.HealthCheckResponse.SERVING
    assert await check("") == serving
    assert await check("shop.v1.Orders") == serving
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await check("shop.v1.Nope")
    assert failed.value.code() is grpc.StatusCode.NOT_FOUND
    assert await check("shop.v1.Orders", "Watch") == serving
    unknown = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    assert await check("shop.v1.Nope", "Watch") == unknown


def details(trailing: dict[str, Any]) -> tuple[str, list[str]]:
    status = status_pb2.Status.FromString(trailing["grpc-status-details-bin"])
    info, fields = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    status.details[0].Unpack(info)
    if len(status.details) > 1:
        status.details[1].Unpack(fields)
    return info.reason, [each.field for each in fields.field_violations]


async def test_what_partita_refuses_has_a_status_with_details(mocks: GrpcMocks):
    refused = await mocks.call(
        f"{ORDERS}/GetOrder", {"orderId": "1"}, metadata=[("x-region", "EU1")]
    )
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
    reason, fields = details(refused.trailing)
    assert (reason, len(fields)) == ("mock_constraint_failed", 1)
    assert refused.trailing["x-partita-mock-error"] == "mock_constraint_failed"
    unmatched = await mocks.call(f"{ORDERS}/Picky", {})
    assert unmatched.code is grpc.StatusCode.NOT_FOUND
    assert details(unmatched.trailing)[0] == "mock_no_match"
    broken = await mocks.call(f"{ORDERS}/Broken", {})
    assert broken.code is grpc.StatusCode.INTERNAL
    assert "shop.v1.Order" in broken.details
    assert "nope" in broken.details


@pytest.mark.parametrize(
    "path", ["/shop.v1.Orders/Nope", "/shop.v1.Nope/Get", "/x", "//", "/shop.v1.Orders/"]
)
async def test_an_unknown_method_is_unimplemented_or_asks_for_a_space(mocks: GrpcMocks, path: str):
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await mocks.channel.unary_unary(path)(b"")
    in_space = path.startswith("/shop.v1.Orders")
    expected = grpc.StatusCode.UNIMPLEMENTED if in_space else grpc.StatusCode.FAILED_PRECONDITION
    assert failed.value.code() is expected
    if not in_space:
        assert "x-partita-space" in failed.value.details()
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await mocks.channel.unary_unary(path)(b"", metadata=[("x-partita-space", "shop")])
    assert failed.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_metadata_name_the_space_where_several_serve_a_service():
    shop = content_of("shop", files())
    text = files()
    text["mock/orders/Fixed.yaml"] = "examples: {fixed: {response: {body: {orderId: of the run}}}}"
    run = content_of("shop", text, generation="run")
    other = content_of("other", files())
    async with grpc_mocks({"shop": shop, "other": other, "shop@run-1": run}) as mocks:
        raw = mocks.channel.unary_unary(f"{ORDERS}/Fixed")
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await raw(b"")
        assert failed.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "other, shop" in failed.value.details()
        for _ in range(2):
            assert b"fixed" in await raw(b"", metadata=[("x-partita-space", "shop")])
            assert b"of the run" in await raw(b"", metadata=[("x-partita-space", "shop@run-1")])
        for space in ("nope", "shop@run-2", "a b", "../x"):
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await raw(b"", metadata=[("x-partita-space", space)])
            assert failed.value.code() is grpc.StatusCode.NOT_FOUND
        assert "shop.v1.Orders" in await mocks.services([("x-partita-space", "shop@run-1")])


async def test_a_changed_suite_is_served_as_it_is_now(mocks: GrpcMocks):
    raw = mocks.channel.unary_unary(f"{ORDERS}/Fixed")
    assert b"fixed" in await raw(b"")
    text = files()
    text["mock/orders/Fixed.yaml"] = "examples: {fixed: {response: {body: {orderId: new}}}}"
    mocks.suites.contents["shop"] = content_of("shop", text, generation="2")
    assert await mocks.spaces.load_now("shop")
    assert b"new" in await raw(b"")
    del mocks.suites.contents["shop"]
    mocks.spaces.forget("shop")
    with pytest.raises(grpc.aio.AioRpcError):
        await raw(b"", metadata=[("x-partita-space", "shop")])


async def test_the_shared_secret_guards_shared_spaces_alone():
    contents = {"shop": content_of("shop", files())}
    contents["shop@run-1"] = replace(contents["shop"], generation="run")
    async with grpc_mocks(contents, secret="s3cret") as mocks:
        raw = mocks.channel.unary_unary(f"{ORDERS}/Fixed")
        for given in ((), (("x-partita-mock-secret", "wrong"),)):
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await raw(b"", metadata=given)
            assert failed.value.code() is grpc.StatusCode.UNAUTHENTICATED
        for _ in range(2):
            assert b"fixed" in await raw(b"", metadata=[("x-partita-mock-secret", "s3cret")])
            assert b"fixed" in await raw(b"", metadata=[("x-partita-space", "shop@run-1")])
        entries = await mocks.journal.entries("shop")
        assert entries
        assert not any("x-partita-mock-secret" in each.request_headers for each in entries)


async def test_without_the_secret_nobody_learns_of_shared_spaces():
    contents = {"shop": content_of("shop", files()), "twin": content_of("twin", files())}
    contents["shop@run-1"] = replace(contents["shop"], generation="run")
    right = ("x-partita-mock-secret", "s3cret")
    async with grpc_mocks(contents, secret="s3cret") as mocks:
        for space in ((), (("x-partita-space", "shop"),), (("x-partita-space", "nope"),)):
            for path in (REFLECTION, REFLECTION_V1):
                with pytest.raises(grpc.aio.AioRpcError) as failed:
                    await mocks.services(space, path)
                assert failed.value.code() is grpc.StatusCode.UNAUTHENTICATED
            for path in (f"{ORDERS}/Fixed", "/shop.v1.Nope/Get", "/grpc.health.v1.Health/Check"):
                service = health_pb2.HealthCheckRequest(service="shop.v1.Orders")
                with pytest.raises(grpc.aio.AioRpcError) as failed:
                    await mocks.channel.unary_unary(path)(
                        service.SerializeToString(), metadata=space
                    )
                assert failed.value.code() is grpc.StatusCode.UNAUTHENTICATED
                assert "shop" not in failed.value.details()
        assert "shop.v1.Orders" in await mocks.services((right,))
        assert "shop.v1.Orders" in await mocks.services((("x-partita-space", "shop@run-1"),))


async def test_a_delay_ends_with_the_client(mocks: GrpcMocks):
    slow = await mocks.call(f"{ORDERS}/Slow", {}, within_s=0.2)
    assert slow.code is grpc.StatusCode.DEADLINE_EXCEEDED


MESSAGES = {
    "no message": b"\xff" * 50,
    "no UTF-8": b"\x0a\x02\xff\xfe",
    "unknown fields": b"\xfa\x3f\x05hello" * 100,
    "groups": b"\x0b" * 200,
    "cut": b"\x0a\x7f",
    "length beyond": b"\x0a\xff\xff\xff\xff\x0f",
    "long": b"\x0a\xa0\x8d\x06" + b"x" * 100_000,
    "many": b"\x1a\x01x" * 50_000,
    "NULs": bytes(100),
    "template": b"\x0a\x12{{request.rawBody}}",
}


@pytest.mark.parametrize("case", MESSAGES)
async def test_a_hostile_message_is_answered_or_refused(mocks: GrpcMocks, case: str):
    for name in ("GetOrder", "Fixed"):
        call = mocks.channel.unary_unary(f"{ORDERS}/{name}")(MESSAGES[case])
        assert await call.code() in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT)
    assert await mocks.channel.unary_unary(f"{ORDERS}/Fixed")(b"")


async def test_a_message_beyond_the_limit_is_refused(mocks: GrpcMocks):
    raw = mocks.channel.unary_unary(f"{ORDERS}/GetOrder")
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await raw(b"\x0a" + b"x" * (5 * 2**20))
    assert failed.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_large_message_is_converted_off_the_loop(mocks: GrpcMocks):
    tags = ["x" * 10] * 20_000
    large = await mocks.call(f"{ORDERS}/GetOrder", {"orderId": "7", "tags": tags})
    assert large.message["orderId"] == "7"


FIELDS = "".join(f"string a_field_with_number_{n} = {n};" for n in range(1, 201))
WIDE = f"""
syntax = "proto3";
package wide;
import "google/protobuf/any.proto";
message Item {{ {FIELDS} map<string, Item> by_name = 900; }}
message Order {{ repeated Item items = 1; google.protobuf.Any more = 2; int64 count = 3; }}
service Orders {{ rpc Get(Order) returns (Item); }}
"""
WIDE_MOCK = """
examples: {one: {when: [{from: body, param: count, value: "1"}], response: {body: {}}}}
"""


@pytest.mark.parametrize("place", ["items", "any", "map"])
async def test_a_small_message_cannot_become_a_huge_one_in_json(place: str):
    empty = b"\x0a\x00" * 7_000
    metadata = "metadata: {operationId: Get, sourceArtifact: api/wide.proto}"
    texts = {"api/wide.proto": WIDE, "mock/wide/Get.yaml": WIDE_MOCK}
    suite = content_of("wide", {**texts, "mock/wide/Get.metadata.yaml": metadata})
    protos = compile_protos(suite.files)
    method = protos.methods["/wide.Orders/Get"]
    message = method.request.FromString(empty)
    if place == "any":
        message, inner = method.request(), message
        message.more.Pack(inner)
    elif place == "map":
        message = method.request(items=[{}])
        for number in range(7_000):
            message.items[0].by_name[str(number)].SetInParent()
    async with grpc_mocks({"wide": suite}) as served:
        call = served.channel.unary_unary("/wide.Orders/Get")
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await call(message.SerializeToString())
        assert failed.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await call(method.request(count=1, items=[{}] * 500).SerializeToString()) == b""


async def test_a_large_answer_that_never_changes_is_converted_off_the_loop(monkeypatch):
    threads: list[str] = []

    class Watched(Codec):
        def _message(self, document: Any) -> bytes:
            threads.append(threading.current_thread().name)
            return super()._message(document)

    monkeypatch.setattr(methods, "Codec", Watched)
    texts = files()
    large = f"examples: {{fixed: {{response: {{body: {{orderId: {'x' * 200_000}}}}}}}}}"
    texts["mock/orders/Fixed.yaml"] = large
    async with grpc_mocks({"shop": content_of("shop", texts)}) as served:
        for _ in range(2):
            assert len(await served.channel.unary_unary(f"{ORDERS}/Fixed")(b"")) > 200_000
    assert len(threads) == 2
    assert threading.main_thread().name not in threads


async def test_many_calls_at_once_are_answered(mocks: GrpcMocks):
    raw = mocks.channel.unary_unary(f"{ORDERS}/GetOrder")
    sent = [b"\x0a\x02" + b"%02d" % number for number in range(50)]
    answers = await asyncio.gather(*(raw(each) for each in sent))
    assert [answer[2:4] for answer in answers] == [b"%02d" % number for number in range(50)]
    assert len(await mocks.journal.entries("shop")) == 50


async def test_an_address_that_cannot_be_listened_on_is_said(mocks: GrpcMocks):
    server = GrpcServer(mocks.server._setup, list, host="192.0.2.1", port=8092)
    with pytest.raises(PortTaken):
        await server.start()
    await server.stop()


async def test_a_port_is_shared_only_where_that_is_wanted(mocks: GrpcMocks):
    port, setup = mocks.server.port, mocks.server._setup
    alone = GrpcServer(setup, list, host="127.0.0.1", port=port, shares_port=False)
    with pytest.raises(PortTaken):
        await alone.start()
    await alone.stop()
    beside = GrpcServer(setup, list, host="127.0.0.1", port=port)
    await beside.start()
    await beside.stop()


async def test_while_draining_calls_are_refused():
    is_over = [False]
    contents = {"shop": content_of("shop", files())}
    async with grpc_mocks(contents, is_draining=lambda: is_over[0]) as mocks:
        raw = mocks.channel.unary_unary(f"{ORDERS}/Fixed")
        assert await raw(b"")
        is_over[0] = True
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await raw(b"")
        assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
