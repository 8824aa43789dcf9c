"""What is filled in where mocks and contracts leave it out (reference: control-plane 6.2)."""

from __future__ import annotations

import pytest

from tests.support.surfaces import BASE, hydrated

EXAMPLES = "examples: {ok: {response: {body: {ok: true}}}}"
CONTRACT = """\
openapi: 3.0.3
info: {title: Payments API}
paths:
  /payments/{id}:
    get:
      operationId: get-payment
      summary: One payment
      parameters: [{name: id, in: path, required: true, schema: {type: string, example: pay_1}}]
    post:
      operationId: createPayment
      description: |
        Make a payment.
        It takes a while.
"""


def with_spec(spec: str, path: str = "mock/pay/op.metadata.yaml") -> dict[str, str]:
    return {path: f"spec: {spec}", "mock/pay/op.yaml": EXAMPLES}


@pytest.mark.parametrize(
    ("protocol", "adapter"),
    [
        ("gRPC", "grpc"),
        ("Async", "async"),
        ("Kafka", "async"),
        ("MQTT", "async"),
        ("AMQP", "async"),
        ("NATS", "async"),
        ("TCP", "async"),
        ("UDP", "async"),
        ("WebSocket", "async"),
        ("REST", "rest"),
        ("SOAP", "rest"),
        ("GraphQL", "rest"),
        ("Webhook", "rest"),
        ("", "rest"),
    ],
)
def test_the_adapter_comes_from_the_protocol(protocol, adapter):
    found = hydrated(with_spec(f"{{protocol: '{protocol}'}}"))

    assert found.only["mockMetadata"]["adapter"] == adapter
    assert found.surfaces["pay"]["protocol"] == (protocol or "REST")
    assert found.warnings == []


@pytest.mark.parametrize(
    ("adapter", "protocol", "runtime"),
    [
        ("rest", "REST", "/mocks/rest/shop/pay/op"),
        ("grpc", "gRPC", "/mocks/grpc/shop/pay/op"),
        ("ASYNC", "Async", "/mocks/async/shop/pay/op"),
    ],
)
def test_the_protocol_comes_from_the_adapter(adapter, protocol, runtime):
    found = hydrated(with_spec(f"{{adapter: {adapter}}}"))

    assert found.surfaces["pay"]["protocol"] == protocol
    assert found.only["mockMetadata"]["runtimeUrl"] == runtime
    assert found.only["mockUrl"] == BASE + runtime
    assert found.surfaces["pay"]["mockHost"] == BASE + runtime.removesuffix("/op")


@pytest.mark.parametrize(
    ("contract", "text", "protocol", "adapter"),
    [
        ("api/pay.proto", "service P { rpc op(A) returns (A); } message A {}", "gRPC", "grpc"),
        ("api/pay.yaml", "{asyncapi: 2.6.0, channels: {c: {publish: {operationId: op}}}}",
         "Async", "async"),
        ("api/pay.yaml", "{asyncapi: 3.0.0, servers: {a: {protocol: kafka}}, "
         "operations: {op: {action: send}}}", "Kafka", "async"),
        ("api/pay.graphql", "type Query { op: Int }", "GraphQL", "rest"),
        ("api/pay.yaml", "{openapi: 3.1.0, paths: {/x: {get: {operationId: op}}}}", "REST", "rest"),
        ("api/pay.wsdl", '<definitions xmlns="http://schemas.xmlsoap.org/wsdl/"><portType name="P">'
         '<operation name="op"/></portType></definitions>', "SOAP", "rest"),
    ],
)  # fmt: skip
def test_the_protocol_comes_from_the_kind_of_contract(contract, text, protocol, adapter):
    metadata = f"metadata: {{sourceArtifact: {contract}}}"
    found = hydrated({contract: text, "mock/pay/op.metadata.yaml": metadata})

    assert found.surfaces["pay"]["protocol"] == protocol
    assert found.only["mockMetadata"]["adapter"] == adapter
    assert found.only["contractPath"] == contract
    assert found.warnings == []


@pytest.mark.parametrize(
    ("metadata", "path", "surface"),
    [
        ("metadata: {surface: bills}\nspec: {resolverUrl: /internal/mock-data/shop/other/op}",
         "mock/pay/op.metadata.yaml", "bills"),
        ("spec: {resolverUrl: 'http://x/internal/mock-data/shop/other/op?a=1'}",
         "mock/pay/op.metadata.yaml", "other"),
        ("{}", "mock/pay/deep/op.metadata.yaml", "pay"),
        ("{}", "mock/op.metadata.yaml", "default"),
        ("", "mock/pay/op.metadata.yml", "pay"),
    ],
)  # fmt: skip
def test_the_surface_is_named_or_comes_from_the_resolver_or_the_folder(metadata, path, surface):
    found = hydrated({path: metadata})

    assert list(found.surfaces) == [surface]
    assert found.surfaces[surface]["title"] == surface.capitalize()
    assert found.only["id"] == "op"


def test_urls_and_paths_are_generated():
    mock = hydrated(with_spec("{method: put, path: '/payments/{id}'}")).only

    assert (mock["id"], mock["method"], mock["name"]) == ("op", "PUT", "/payments/{id}")
    assert mock["mockPath"] == "mock/pay/op.yaml"
    assert mock["dispatcher"] == "example"
    assert mock["mockMetadata"] == {
        "adapter": "rest",
        "dispatcher": "example",
        "delayMillis": 0,
        "parameterConstraints": [],
        "metadataPath": "mock/pay/op.metadata.yaml",
        "resolverUrl": "/internal/mock-data/shop/pay/op",
        "runtimeUrl": "/mocks/rest/shop/pay/payments/{id}",
        "problems": [],
    }


def test_what_is_given_is_kept():
    spec = "{resolverUrl: /internal/mock-data/shop/pay/x, runtimeUrl: 'https://mocks/a/{b}'}"
    mock = hydrated(with_spec(spec)).only

    assert mock["mockMetadata"]["resolverUrl"] == "/internal/mock-data/shop/pay/x"
    assert mock["mockUrl"] == "https://mocks/a/{b}"


def test_without_contract_the_method_is_post_and_the_path_the_tail_of_the_runtime_url():
    mock = hydrated(with_spec("{runtimeUrl: '/mocks/rest/shop/pay/bills/{id}'}")).only

    assert (mock["method"], mock["name"]) == ("POST", "/bills/{id}")


@pytest.mark.parametrize("name", ["getPayment", "get_payment", "GETPAYMENT", "get-payment"])
def test_an_operation_of_the_contract_matches_ignoring_case_and_separators(name):
    found = hydrated(
        {
            "api/payments.yaml": CONTRACT,
            f"mock/pay/{name}.metadata.yaml": "metadata: {sourceArtifact: api/payments.yaml}",
        }
    )

    mock = found.operation("pay", name)
    assert (mock["method"], mock["name"]) == ("GET", "/payments/{id}")
    assert mock["summary"] == "One payment"
    assert found.ids("pay") == [name, "createPayment"]
    assert found.surfaces["pay"]["title"] == "Payments API"


def test_an_operation_of_the_contract_is_found_by_its_route_too():
    found = hydrated(
        {
            "api/pay.yaml": CONTRACT,
            "mock/pay/other.metadata.yaml": "spec: {method: GET, path: '/payments/{key}'}",
        }
    )

    assert found.ids("pay") == ["other", "createPayment"]
    assert found.operation("pay", "other")["summary"] == "One payment"


def test_the_metadata_beats_the_contract():
    metadata = """
metadata: {operationId: getPayment, sourceArtifact: api/pay.yaml, surfaceTitle: Bills}
spec: {method: PATCH, path: /bills, summary: Mine}
"""
    found = hydrated({"api/pay.yaml": CONTRACT, "mock/pay/x.metadata.yaml": metadata})

    mock = found.operation("pay", "getPayment")
    assert (mock["method"], mock["summary"]) == ("PATCH", "Mine")
    assert mock["mockMetadata"]["runtimeUrl"] == "/mocks/rest/shop/pay/bills"
    assert found.surfaces["pay"]["title"] == "Bills"


def test_an_operation_without_metadata_appears_without_exchanges():
    found = hydrated({"api/pay.yaml": CONTRACT})

    operation = found.operation("pay", "createPayment")
    assert operation["exchanges"] == []
    assert operation["summary"] == "Make a payment."
    assert operation["mockMetadata"]["resolverUrl"] == "/internal/mock-data/shop/pay/createPayment"
    assert "mockPath" not in operation
    assert "metadataPath" not in operation["mockMetadata"]


def test_an_example_file_is_a_mock_without_metadata():
    found = hydrated({"api/pay.yaml": CONTRACT, "mock/pay/createPayment.yaml": EXAMPLES})

    mock = found.operation("pay", "createPayment")
    assert [each["name"] for each in mock["exchanges"]] == ["ok"]
    assert mock["mockMetadata"]["metadataPath"] == "mock/pay/createPayment.metadata.yaml"
    assert found.ids("pay") == ["get-payment", "createPayment"]


@pytest.mark.parametrize(
    ("spec", "existing", "used"),
    [
        ("{mockPath: mock/a/x}", "mock/a/x.yml", "mock/a/x.yml"),
        ("{mockPath: mock/a/x.yaml}", "mock/a/x.json", "mock/a/x.json"),
        ("{mockPath: mock/a/x.json}", "mock/a/x.cue", "mock/a/x.cue"),
        ("{mockPath: ./mock/a/x.yaml}", "mock/a/x.yaml", "mock/a/x.yaml"),
        ("{}", "mock/pay/op.json", "mock/pay/op.json"),
    ],
)
def test_a_missing_extension_becomes_the_one_that_exists(spec, existing, used):
    content = '{"examples": {"ok": {"response": {"status": "204"}}}}'
    found = hydrated({"mock/pay/op.metadata.yaml": f"spec: {spec}", existing: content})

    assert found.only["mockPath"] == used
    assert [each["responseStatus"] for each in found.only["exchanges"]] == ["204"]
    assert found.warnings == []


def test_a_missing_extension_takes_the_order_as_written_yaml_yml_json_cue():
    files = {f"mock/pay/op.{end}": EXAMPLES for end in ("cue", "json", "yml")}
    mock = hydrated({"mock/pay/op.metadata.yaml": "{spec: {mockPath: mock/pay/op.yaml}}", **files})

    assert mock.operation("pay", "op")["mockPath"] == "mock/pay/op.yml"


def test_nested_keys_ignore_case():
    spec = """
  parameterconstraints: [{NAME: q, Source: HEADER, Required: true, Pattern: '^a$'}]
  FallBack: {Mode: STATIC, Status: '404', mediatype: text/plain, Body: no}
  State: {lookupkeytemplate: k, Transitions: [{onexample: ok, Increment: {n: -1}, Delete: [a]}]}
  DELAYMILLIS: 25
"""
    mock = hydrated({"mock/pay/op.metadata.yaml": f"Spec: {spec}", "mock/pay/op.yaml": EXAMPLES})

    described = mock.operation("pay", "op")["mockMetadata"]
    assert described["parameterConstraints"] == [
        {"name": "q", "source": "header", "required": True, "forward": False, "pattern": "^a$"}
    ]
    assert described["fallback"] == {
        "mode": "static", "status": "404", "mediaType": "text/plain", "body": "no",
    }  # fmt: skip
    assert described["state"]["lookupKeyTemplate"] == "k"
    assert described["state"]["transitions"] == [
        {"onExample": "ok", "set": {}, "delete": ["a"], "increment": {"n": -1}}
    ]
    assert described["delayMillis"] == 25
    assert mock.warnings == []


BROKEN_SPECS = [
    ("fallback: {mode: nowhere}", 2, "nowhere"),
    ("fallback: {mode: example}", 2, "requires exampleName"),
    ("fallback: {mode: static, status: '999'}", 2, "not a status"),
    ("fallback: {mode: example, exampleName: gone}", 2, '"gone", which does not exist'),
    ("parameterConstraints: [{name: a, pattern: '(?=x)'}]", 2, "RE2"),
    ("parameterConstraints: [{name: a, source: cookie}]", 2, "cookie"),
    ("parameterConstraints: [{source: query}]", 2, "requires name"),
    ("delayMillis: 60001", 2, "60000"),
    ("dispatcher: sequence\n  dispatcherRules: 'a,,b'", 3, "sequence"),
    ("dispatcher: sequence\n  dispatcherRules: 'ok, gone'", 3, "gone"),
    ("dispatcher: random\n  dispatcherRules: 'ok=x'", 3, "weight"),
    ("dispatcher: random\n  dispatcherRules: 'gone=1'", 3, "gone"),
    ("dispatcher: script\n  dispatcherRules: 'a b'", 3, "not Starlark"),
    ("dispatcher: script", 2, "requires dispatcherRules"),
    ("state: {transitions: [{onExample: gone}]}", 2, "gone"),
    ("state: {transitions: [{increment: {a: much}}]}", 2, "integer"),
]


@pytest.mark.parametrize(("spec", "line", "word"), BROKEN_SPECS)
def test_a_broken_mock_is_a_warning_with_its_place_and_a_problem(spec, line, word):
    files = {"mock/pay/op.metadata.yaml": f"spec:\n  {spec}\n", "mock/pay/op.yaml": EXAMPLES}
    found = hydrated(files)

    ((code, file, at, column),) = found.warnings
    assert (code, file, at) == ("mock_metadata_invalid", "mock/pay/op.metadata.yaml", line)
    assert column
    assert word in found.details[0]
    assert found.only["mockMetadata"]["problems"] == [found.details[0]]


@pytest.mark.parametrize("spec", ["dispatcher: sometimes", "adapter: carrier-pigeon"])
def test_an_unknown_dispatcher_or_adapter_is_a_warning_only(spec):
    found = hydrated(
        {"mock/pay/op.metadata.yaml": f"spec: {{{spec}}}", "mock/pay/op.yaml": EXAMPLES}
    )

    assert found.codes == ["unknown_value"]
    assert found.only["dispatcher"] == "example"
    assert found.only["mockMetadata"]["adapter"] == "rest"
    assert found.only["mockMetadata"]["problems"] == []


@pytest.mark.parametrize(
    ("dispatcher", "rules"),
    [
        ("sequence", "once: ok, ok"),
        ("random", "seed=42; ok=3"),
        ("script", "'ok' if state.get('a') else None"),
        ("script", "def dispatch(request, state):\\n    return 'ok'"),
        ("example", "whatever"),
    ],
)
def test_rules_that_parse_are_kept(dispatcher, rules):
    spec = f'{{dispatcher: {dispatcher}, dispatcherRules: "{rules}"}}'
    found = hydrated(with_spec(spec))

    assert found.warnings == []
    mock = found.typed[0].operations[0].mock
    assert (mock.rules is None) == (dispatcher == "example")


def test_a_second_operation_of_a_route_is_left_out():
    found = hydrated(
        {
            "mock/pay/a.metadata.yaml": "spec: {method: GET, path: '/x/{id}'}",
            "mock/pay/b.metadata.yaml": "\nspec: {method: GET, path: '/x/{key}'}",
            "mock/pay/c.metadata.yaml": "spec: {method: PUT, path: '/x/{key}'}",
            "mock/other/d.metadata.yaml": "spec: {method: GET, path: '/x/{id}'}",
        }
    )

    assert found.ids("pay") == ["a", "c"]
    assert found.ids("other") == ["d"]
    assert found.warnings == [("mock_duplicate_operation", "mock/pay/b.metadata.yaml", 2, 1)]


def test_the_same_operation_id_twice_gets_a_number():
    metadata = "{metadata: {operationId: op}, spec: {path: /%s}}"
    found = hydrated(
        {"mock/pay/a.metadata.yaml": metadata % "a", "mock/pay/b.metadata.yaml": metadata % "b"}
    )

    assert found.ids("pay") == ["op", "op-2"]


def test_a_file_that_cannot_be_read_is_still_an_operation():
    found = hydrated({"mock/pay/op.metadata.yaml": "spec: [", "mock/pay/op.yaml": EXAMPLES})

    assert found.codes == ["mock_metadata_invalid"]
    assert found.only["exchanges"]
    assert found.only["mockMetadata"]["problems"] == ["the file cannot be read"]


def test_contracts_of_one_name_and_another_protocol_are_surfaces_of_their_own():
    found = hydrated(
        {
            "api/pay/openapi.yaml": CONTRACT,
            "api/pay/pay.proto": "service P { rpc Do(M) returns (M); }\nmessage M {}",
        }
    )

    assert {name: each["protocol"] for name, each in found.surfaces.items()} == {
        "pay": "REST",
        "pay-grpc": "gRPC",
    }


def test_the_result_depends_on_the_content_only():
    files = {"api/pay.yaml": CONTRACT, "mock/pay/createPayment.yaml": EXAMPLES}

    assert hydrated(files).surfaces == hydrated(dict(reversed(files.items()))).surfaces
