"""Contracts of every format, good, broken and real ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.npm import npm_package
from tests.support.processes import ROOT
from tests.support.surfaces import Found, hydrated

SITE_PACKAGES = Path(pytest.__file__).parents[1]
STREETLIGHTS_2 = """
asyncapi: 2.6.0
info: {title: Streetlights, description: Lights of a city.}
servers: {production: {url: mqtt.example.org, protocol: mqtt}}
channels:
  light/{id}/measured:
    publish:
      operationId: receiveLight
      summary: What a light measured
      message: {oneOf: [{$ref: '#/components/messages/lightMeasured'}]}
  light/{id}/turn/on:
    subscribe:
      message: {examples: [{payload: {command: on}}], payload: {type: object}}
components:
  messages:
    lightMeasured:
      payload:
        type: object
        properties: {lumens: {type: integer, minimum: 1}, sentAt: {type: string, format: date-time}}
"""
STREETLIGHTS_3 = """
asyncapi: 3.0.0
info: {title: Streetlights}
servers: {scram: {host: kafka.example.org, protocol: kafka-secure}}
channels:
  measured:
    address: light/{id}/measured
    messages: {measured: {payload: {type: object, properties: {lumens: {type: integer}}}}}
operations:
  receiveLight:
    action: receive
    channel: {$ref: '#/channels/measured'}
    messages: [{$ref: '#/channels/measured/messages/measured'}]
  turnOn: {action: send, channel: {$ref: '#/channels/measured'}}
"""


def test_asyncapi_2_lists_what_channels_publish_and_subscribe():
    found = hydrated({"api/lights.yaml": STREETLIGHTS_2})

    assert found.warnings == []
    assert found.surfaces["lights"]["protocol"] == "MQTT"
    assert found.surfaces["lights"]["description"] == "Lights of a city."
    light = found.operation("lights", "receiveLight")
    assert (light["method"], light["name"]) == ("PUBLISH", "light/{id}/measured")
    assert '"lumens": 1' in light["curlCommand"]
    assert light["mockMetadata"]["runtimeUrl"] == "/mocks/async/shop/lights/receiveLight"
    turn = found.operation("lights", "subscribe-light-id-turn-on")
    assert '{"command": "on"}' in turn["curlCommand"]


def test_asyncapi_3_lists_its_operations_also_on_one_channel():
    found = hydrated({"api/lights.yaml": STREETLIGHTS_3})

    assert found.warnings == []
    assert found.ids("lights") == ["receiveLight", "turnOn"]
    assert [each["method"] for each in found.surfaces["lights"]["operations"]] == [
        "RECEIVE",
        "SEND",
    ]
    assert found.operation("lights", "turnOn")["name"] == "light/{id}/measured"
    assert found.surfaces["lights"]["protocol"] == "kafka-secure"


PROTO = """\
// About the file.
syntax = "proto3";
package acme.pay.v1; // a package
import "common/money.proto"; // import "gone.proto";
import public "google/protobuf/empty.proto";
import 'google/protobuf/timestamp.proto';
import "google/api/annotations.proto";
option go_package = "x;y";

/* The service.
 * More of it. */
service Payments {
  option (acme.common.auth) = { scopes: ["a;b", "{"] };
  // Take money.
  rpc Capture (CaptureRequest) returns (.acme.common.Money) {
    option (google.api.http) = { post: "/x" body: "import \\"gone.proto\\";" };
  }
  rpc Upload(stream acme.common.Chunk) returns (google.protobuf.Empty);
  rpc Watch(CaptureRequest) returns (stream Event) {}
  rpc Talk(stream acme.common.Chunk) returns (stream acme.common.Chunk); // Chat.
}
message CaptureRequest {
  reserved 2, 4 to 6;
  string order_id = 1 [deprecated = true];
  acme.common.Money amount = 3;
  repeated Kind kinds = 7;
  map<string, acme.common.Chunk> parts = 8;
  map<int32, bool> flags = 12;
  optional google.protobuf.Timestamp made_at = 13 [json_name = "made"];
  oneof how { string card = 9; string cash = 10; }
  enum Kind { option allow_alias = true; NONE = 0; SOME = 1; ANY = 1; }
  CaptureRequest parent = 11;
}
message Event { google.protobuf.Timestamp at = 1; }
"""
MONEY = """\
/* A file of proto2, edition not said. */
package acme.common;
import "google/protobuf/descriptor.proto";
message Money { optional int64 cents = 1; }
message Chunk { optional bytes data = 1; extensions 100 to 199; }
message Auth { repeated string scopes = 1; }
extend google.protobuf.ServiceOptions { optional Auth auth = 50001; }
"""


def test_a_proto_file_lists_methods_with_streaming_comments_and_samples():
    found = hydrated({"api/acme/pay.proto": PROTO, "api/acme/common/money.proto": MONEY})

    assert found.warnings == []
    assert list(found.surfaces) == ["acme"]
    streaming = {each["id"]: each.get("streaming") for each in found.surfaces["acme"]["operations"]}
    assert streaming == {"Capture": None, "Upload": "client", "Watch": "server", "Talk": "both"}
    capture = found.operation("acme", "Capture")
    assert capture["name"] == "acme.pay.v1.Payments/Capture"
    assert capture["summary"] == "Take money."
    assert found.operation("acme", "Talk")["summary"] == "Chat."
    body = json.loads(capture["curlCommand"].partition("--data-raw '")[2][:-1])
    assert body["orderId"] == "string"
    assert body["amount"] == {"cents": "0"}
    assert body["kinds"] == ["NONE"]
    assert body["parts"] == {"key": {"data": ""}}
    assert body["flags"] == {"0": False}
    assert body["made"] == "2024-01-31T12:00:00Z"
    assert "card" not in body


def test_methods_of_two_services_with_one_name_are_told_apart():
    text = (
        "service A { rpc Get(M) returns (M); } service B { rpc Get(M) returns (M); } message M {}"
    )

    assert hydrated({"api/x.proto": text}).ids("x") == ["A.Get", "B.Get"]


@pytest.mark.parametrize(
    "identity",
    [
        "{operationId: Get, sourceArtifact: api/shop.proto}",
        "{operationId: Orders/Get}",
        "{operationId: shop.v1.Orders/Get}",
        "{operationId: mine, contractPath: 'api/shop.proto#Orders/Get'}",
        "{operationId: mine, contractPath: 'api/shop.proto#shop.v1.Orders/Get'}",
    ],
)
def test_a_mock_names_its_grpc_method_in_each_form(identity: str):
    found = hydrated(
        {
            "api/shop.proto": "syntax = 'proto3'; package shop.v1; message M {}"
            "service Orders { rpc Get(M) returns (M); rpc Put(M) returns (M); }",
            "mock/a.metadata.yaml": f"kind: MockOperation\nmetadata: {identity}\n"
            "spec: {adapter: grpc, mockPath: mock/a.yaml}\n",
            "mock/a.yaml": "examples: {one: {response: {body: {}}}}",
        }
    )

    assert found.warnings == []
    (surface,) = found.surfaces.values()
    assert [each["name"] for each in surface["operations"]] == [
        "shop.v1.Orders/Get", "shop.v1.Orders/Put",
    ]  # fmt: skip
    assert surface["operations"][0]["mockPath"] == "mock/a.yaml"


def test_graphql_lists_root_fields_also_renamed_and_extended_ones():
    text = """
schema { query: Root mutation: Change }
type Root { "All goods" goods(first: Int!): [Good!]! count: Int! }
extend type Root { extra: Kind }
type Change { buy: Good }
type Good { id: ID! }
enum Kind { A }
type Query { notARoot: Int }
"""
    found = hydrated({"api/shop.graphql": text})

    assert found.warnings == []
    assert found.ids("shop") == ["goods", "count", "extra", "buy"]
    goods = found.operation("shop", "goods")
    assert (goods["method"], goods["name"], goods["summary"]) == ("POST", "Root.goods", "All goods")
    assert "query { goods { __typename } }" in goods["curlCommand"]
    assert "query { extra }" in found.operation("shop", "extra")["curlCommand"]
    assert goods["mockMetadata"]["runtimeUrl"] == "/mocks/rest/shop/shop/graphql"


def test_wsdl_lists_the_operations_of_its_port_types():
    text = """<?xml version="1.0"?>
<definitions name="Stock" targetNamespace="urn:stock" xmlns="http://schemas.xmlsoap.org/wsdl/"
    xmlns:soap="http://schemas.xmlsoap.org/wsdl/soap/">
  <portType name="Quotes">
    <operation name="GetPrice"><documentation>The price of a share.</documentation></operation>
    <operation name="GetName"/>
  </portType>
  <service name="S"><port name="P"><soap:address location="http://example.org/soap/stock"/></port></service>
</definitions>"""
    found = hydrated({"api/stock.wsdl": text})

    assert found.warnings == []
    assert found.surfaces["stock"]["title"] == "Stock"
    price = found.operation("stock", "GetPrice")
    assert (price["name"], price["summary"]) == ("Quotes.GetPrice", "The price of a share.")
    assert price["mockMetadata"]["runtimeUrl"] == "/mocks/rest/shop/stock/soap/stock"
    assert "<GetPrice xmlns=" in price["curlCommand"]


def test_references_lead_to_other_files_of_the_suite():
    found = hydrated(
        {
            "api/openapi.yaml": "{openapi: 3.0.0, paths: {/a: {$ref: 'paths/a.yaml'}}}",
            "api/paths/a.yaml": "post: {operationId: a, requestBody: {$ref: '../b.json#/body'}}",
            "api/b.json": '{"body": {"content": {"application/json": {"example": {"x": 1}}}}}',
        }
    )

    assert found.warnings == []
    assert '{"x": 1}' in found.only["curlCommand"]


BROKEN = [
    ("api/x.yaml", "openapi: 3.0.0\npaths:\n  goods: {get: {}}\n", (3, 10)),
    ("api/x.yaml", "openapi: 3.0.0\npaths:\n  /a: {get: 3}\n", (3, 13)),
    ("api/x.yaml", "openapi: 3.0.0\npaths:\n  /a: 3\n", (3, 7)),
    ("api/x.yaml", "openapi: 3.0.0\npaths: []\n", (2, 8)),
    ("api/x.yaml", "openapi: 3.0.0\npaths: {\n", (3, 1)),
    ("api/x.yaml", "openapi: 3.0.0\nopenapi: 3.0.0\n", (2, 1)),
    ("api/x.json", '{"openapi": "3.0.0",\n  "paths": }', (2, 12)),
    ("api/x.yaml", "asyncapi: 3.0.0\noperations:\n  a: {action: shout}\n", (3, 15)),
    ("api/x.yaml", "asyncapi: 2.0.0\nchannels: 3\n", (2, 11)),
    ("api/x.proto", 'service A {\n  rpc B(C) gives (D);\n}', (2, 12)),
    ("api/x.proto", "service A {\n  rpc B(C) returns (C);\n}", (2, 9)),
    ("api/x.proto", 'import "gone.proto";', (1, 1)),
    ("api/x.proto", "syntax = 'proto3';\nmessage A {\n  string a = 1\n", (4, 1)),
    ("api/x.proto", "message A { string a = 1; }", (1, 13)),
    ("api/x.proto", "syntax = 'proto3';message A { string a = 1; } }", (1, 47)),
    ("api/x.proto", "/* without end", (1, 15)),
    ("api/x.graphql", "type Query {\n  a: \n}", (3, 1)),
    ("api/x.wsdl", "<a>\n<b></a>", (2, 6)),
    ("api/x.wsdl", "<a/>", (1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text", "place"), BROKEN)
def test_a_broken_contract_is_a_warning_with_its_place(path, text, place):
    found = hydrated({path: text, "api/fine.yaml": "{openapi: 3.0.0, paths: {/fine: {get: {}}}}"})

    assert found.warnings[0] == ("contract_invalid", path, *place)
    assert found.ids("fine") == ["get-fine"]


@pytest.mark.parametrize("text", ["swagger: '1.2'", "openapi: 4.0.0", "asyncapi: 1.2.0"])
def test_an_edition_that_is_not_read_is_a_warning(text):
    assert hydrated({"api/x.yaml": text}).codes == ["contract_unsupported"]


def test_entities_in_wsdl_are_refused():
    bomb = '<!DOCTYPE a [<!ENTITY b "bbbb">]><definitions>&b;</definitions>'

    assert hydrated({"api/x.wsdl": bomb}).codes == ["contract_invalid"]


def test_shared_schemas_are_no_contracts():
    found = hydrated({"api/schemas/good.json": '{"type": "object"}', "api/notes.txt": "hello"})

    assert (found.surfaces, found.warnings) == ({}, [])


def _real(folder: Path, *suffixes: str, below: str = "") -> dict[str, bytes]:
    found = (path for path in sorted((folder / below).rglob("*")) if path.suffix in suffixes)
    return {f"api/{path.relative_to(folder)}": path.read_bytes() for path in found}


def _is_clean(found: Found) -> bool:
    return not [each for each in found.codes if each != "mock_duplicate_operation"]


def test_real_openapi_of_a_django_app_is_read():
    spec = SITE_PACKAGES / "allauth" / "headless" / "spec" / "doc"
    found = hydrated(_real(spec, ".yaml"))

    assert found.warnings == []
    (surface,) = found.surfaces.values()
    assert len(surface["operations"]) > 50
    assert all(each["summary"] for each in surface["operations"])


def test_real_protos_of_google_and_of_this_project_are_read():
    google = hydrated(_real(SITE_PACKAGES, ".proto", below="google"))
    ours = hydrated(_real(ROOT / "proto", ".proto"))

    assert _is_clean(google)
    assert _is_clean(ours)
    names = {each["name"] for surface in google.surfaces.values() for each in surface["operations"]}
    assert "google.longrunning.Operations/GetOperation" in names
    assert ours.surfaces


# Of the documents themselves: a default that is a text, a scheme that no component declares …
REAL_MISTAKES = (
    '-values" must be a media type', '"api_key" is not declared', 'has "", but type is number',
    "repositoryDeployKeySetting",
    '(with default) *required?', '", but type is integer', '.0", but type is number',
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "version", "folder", "suffixes", "least"),
    [
        ("@readme/oas-examples", "8.2.2", "3.0", (".yaml", ".json"), 250),
        ("@readme/oas-examples", "8.2.2", "3.1", (".yaml", ".json"), 60),
        ("@scalar/galaxy", "0.2.20", "dist", (".yaml",), 8),
        ("etcd3", "1.1.2", "proto", (".proto",), 41),
        ("@octokit/graphql-schema", "15.26.1", ".", (".graphql",), 270),
    ],
)
def test_real_contracts_of_packages_are_read(package, version, folder, suffixes, least):
    root = npm_package(package, version) / "node_modules" / package / folder
    files = {path: text for path, text in _real(root, *suffixes).items() if len(text) < 2**21}
    found = (
        [hydrated({path: text}) for path, text in files.items()]
        if least != 41
        else [hydrated(files)]
    )

    said = [detail for each in found if not _is_clean(each) for detail in each.details]
    assert [detail for detail in said if not any(each in detail for each in REAL_MISTAKES)] == []
    count = sum(len(surface["operations"]) for each in found for surface in each.surfaces.values())
    assert count >= least
