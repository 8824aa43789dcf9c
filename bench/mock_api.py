"""The API that every mock server of the benchmark serves, in the form that each one reads.

Two operations a resource: GET /<resource>/{id} and POST /<resource>/{id}. The plain form has one
example of 1 KiB each, which nothing selects. The stateful form chooses among three by header,
query and body, fills in templates, and keeps what was posted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

SURFACE: Final = "sales"
SIZE: Final = 1024
_NOUNS: Final = (
    "cart", "coupon", "customer", "invoice", "order", "payment", "product", "refund", "shipment",
    "supplier",
)  # fmt: skip
ID: Final = "{id}"


@dataclass(frozen=True)
class Request:
    """A request to the path of each of many ids, where `path` has `ID`.

    `expected`: texts that the body of the answer holds.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    expected: tuple[str, ...] = ()


def resources(operations: int) -> list[str]:
    """Return the names of the resources of an API with so many operations."""
    return [_noun(number) for number in range(operations // 2)]


def _noun(number: int) -> str:
    noun = _NOUNS[number % len(_NOUNS)]
    return noun if number < len(_NOUNS) else f"{noun}{number // len(_NOUNS)}"


# -- what is answered --------------------------------------------------------------------------


def document(kind: str, **changing: str) -> dict[str, Any]:
    """Return a document that is 1 KiB of compact JSON with `changing` as it stands."""
    lines = [{"sku": f"{kind}-{n}", "quantity": n, "price": n * 9.5} for n in range(1, 9)]
    found: dict[str, Any] = {"kind": kind, **changing, "lines": lines, "currency": "EUR"}
    room = SIZE - len(compact({**found, "note": ""}))
    return {**found, "note": ("as agreed by telephone; " * 50)[:room]}


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


# -- what is asked -----------------------------------------------------------------------------


def plain_requests(operations: int, base: str = "") -> list[Request]:
    """Return a request to each operation."""
    found = []
    for noun in resources(operations):
        path = f"{base}/{noun}/{ID}"
        expected = (f'"{noun}-8"',)
        found.append(Request("GET", path, expected=expected))
        found.append(Request("POST", path, _JSON, compact({"type": "paid"}), expected))
    return found


def stateful_requests(operations: int, base: str = "") -> list[Request]:
    """Return posts that change state, and reads that choose an example and show it."""
    found = []
    paid = compact({"type": "paid", "amount": 42, "card": {"type": "visa"}})
    for noun in resources(operations):
        path = f"{base}/{noun}/{ID}"
        expected = (f'"{noun}-8"', f'"{ID}"', '"status":"paid"')
        full = Request("GET", f"{path}?view=full", {"X-Tenant": "acme"}, "", (*expected, '"full"'))
        found += [Request("POST", path, _JSON, paid, (*expected, '"amount":"42"')), full]
    return found


def checked_requests(operations: int, base: str = "") -> list[Request]:
    """Return a post of 1 KiB to each resource, as the checked contract wants it."""
    return [
        Request("POST", f"{base}/{noun}/{ID}", _JSON, compact(document(noun)), (f'"{noun}-8"',))
        for noun in resources(operations)
    ]


_JSON: Final = {"Content-Type": "application/json"}

# -- OpenAPI: Prism, Mockoon, Partita ----------------------------------------------------------


def openapi(operations: int, *, is_checked: bool = False) -> dict[str, Any]:
    """Return the document; `is_checked`: it says everything of the bodies that are posted."""
    body = _CHECKED_BODY if is_checked else _BODY
    return {
        "openapi": "3.0.3",
        "info": {"title": "Sales", "version": "1.0.0"},
        "servers": [{"url": "http://localhost"}],
        "paths": {
            f"/{noun}/{{id}}": {
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
                ],
                "get": _operation(f"get_{noun}", noun),
                "post": _operation(f"post_{noun}", noun) | {"requestBody": body},
            }
            for noun in resources(operations)
        },
    }


def _operation(operation_id: str, noun: str) -> dict[str, Any]:
    example = document(noun)  # Mockoon reads that of the schema, the others that beside it
    media = {"schema": {"type": "object", "example": example}, "example": example}
    return {
        "operationId": operation_id,
        "summary": f"A {noun}",
        "responses": {"200": {"description": "It", "content": {"application/json": media}}},
    }


_BODY: Final = {"content": {"application/json": {"schema": {"type": "object"}}}}
_LINE: Final = {
    "type": "object",
    "required": ["sku", "quantity", "price"],
    "properties": {
        "sku": {"type": "string", "pattern": "^[a-z0-9]+-[0-9]+$"},
        "quantity": {"type": "integer", "minimum": 1},
        "price": {"type": "number", "minimum": 0},
    },
}
_CHECKED: Final = {
    "type": "object",
    "required": ["kind", "lines", "currency"],
    "properties": {
        "kind": {"type": "string", "maxLength": 20},
        "lines": {"type": "array", "minItems": 1, "items": _LINE},
        "currency": {"type": "string", "enum": ["EUR", "USD"]},
        "note": {"type": "string", "maxLength": 2000},
    },
}
_CHECKED_BODY: Final = {"required": True, "content": {"application/json": {"schema": _CHECKED}}}

# -- Partita -----------------------------------------------------------------------------------


def plain_suite(operations: int, *, is_checked: bool = False) -> dict[str, bytes]:
    """Return the files of a suite with the OpenAPI document, and its examples as mocks."""
    contract = openapi(operations, is_checked=is_checked)
    files = {f"api/{SURFACE}.openapi.json": compact(contract).encode()}
    for noun in resources(operations):
        example = {"response": {"status": "200", "body": compact(document(noun))}}
        for verb in ("get", "post"):
            files[f"mock/{SURFACE}/{verb}_{noun}.json"] = _examples({"plain": example})
    return files


def checked_suite(operations: int) -> dict[str, bytes]:
    return plain_suite(operations, is_checked=True)


def unchecked_suite(operations: int) -> dict[str, bytes]:
    """Return the same suite, no call of which is checked."""
    off = compact({"kind": "MockSurface", "spec": {"validate": "off"}}).encode()
    return checked_suite(operations) | {f"mock/{SURFACE}/all.metadata.json": off}


def stateful_suite(operations: int) -> dict[str, bytes]:
    files = {f"api/{SURFACE}.openapi.json": compact(openapi(operations)).encode()}
    for noun in resources(operations):
        files |= _stateful_files(noun)
    return files


def _stateful_files(noun: str) -> dict[str, bytes]:
    change = {
        "onExample": "paid",
        "set": {"status": "paid", "amount": "{{request.body.amount}}"},
        "increment": {"payments": 1},
    }
    state = {"id": "{{request.path.id}}", "status": "{{state.status}}"}
    full = {"from": "query", "param": "view", "value": "full"}
    acme = {"from": "header", "param": "x-tenant", "value": "acme"}
    get = {
        "full": _choice(document(noun, **state, view="{{request.query.view}}"), full, acme),
        "other": _choice(document(noun, **state), full),
        "plain": _choice(document(noun)),
    }
    # `state` of a request is the record before its change
    paid = {"id": "{{request.path.id}}", "amount": "{{request.body.amount}}", "status": "paid"}
    post = {
        "paid": _choice(document(noun, **paid), _of_body("paid"), _of_body("visa", "card.type")),
        "refunded": _choice(document(noun, **paid), _of_body("refunded")),
        "plain": _choice(document(noun)),
    }
    folder = f"mock/{SURFACE}"
    return {
        f"{folder}/get_{noun}.json": _examples(get),
        f"{folder}/post_{noun}.json": _examples(post),
        f"{folder}/get_{noun}.metadata.json": _rules(noun),
        f"{folder}/post_{noun}.metadata.json": _rules(noun, change),
    }


def _rules(noun: str, *transitions: Mapping[str, Any]) -> bytes:
    key = f"{noun}:{{{{request.path.id}}}}"
    kept = {"lookupKeyTemplate": key, "defaults": {"status": "new"}, "transitions": transitions}
    return compact({"kind": "MockOperation", "spec": {"state": kept}}).encode()


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _choice(answer: Any, *conditions: Mapping[str, str]) -> dict[str, Any]:
    response = {"status": "200", "mediaType": "application/json", "body": compact(answer)}
    return {"when": list(conditions), "response": response}


def _of_body(value: str, param: str = "type") -> dict[str, str]:
    return {"from": "body", "param": param, "value": value}


def _examples(examples: Mapping[str, Any]) -> bytes:
    return compact({"examples": examples}).encode()


# -- WireMock ----------------------------------------------------------------------------------


def write_plain_mappings(folder: Path, operations: int) -> None:
    mappings = []
    for noun in resources(operations):
        for method in ("GET", "POST"):
            request = {"method": method, "urlPathTemplate": f"/{noun}/{{id}}"}
            mappings.append({"request": request, "response": _wiremock(document(noun))})
    _write_mappings(folder, mappings)


def write_stateful_mappings(folder: Path, operations: int) -> None:
    """The examples of `stateful_suite`; what is kept is one word a resource, its scenario."""
    mappings: list[dict[str, Any]] = []
    for noun in resources(operations):
        mappings += _stateful_mappings(noun)
    _write_mappings(folder, mappings)


def _stateful_mappings(noun: str) -> list[dict[str, Any]]:
    at = {"urlPathTemplate": f"/{noun}/{{id}}"}
    get, post = at | {"method": "GET"}, at | {"method": "POST"}
    full = {"queryParameters": {"view": {"equalTo": "full"}}}
    acme = full | {"headers": {"X-Tenant": {"equalTo": "acme"}}}
    an_id = {"id": "{{request.path.id}}"}
    found: list[dict[str, Any]] = [
        {"priority": 5, "request": each, "response": _wiremock(document(noun))}
        for each in (get, post)
    ]
    for scenario, status in (("Started", "new"), ("paid", "paid")):
        state = an_id | {"status": status}
        shown = document(noun, **state, view="{{request.query.view}}")
        for priority, which, answer in ((1, acme, shown), (2, full, document(noun, **state))):
            stub = _templated(get | which, answer) | {"priority": priority}
            found.append(stub | {"scenarioName": noun, "requiredScenarioState": scenario})
    amount = {"amount": "{{jsonPath request.body '$.amount'}}", "status": "paid"}
    paid, refunded = _of_json(type="paid", **{"card.type": "visa"}), _of_json(type="refunded")
    change = {"scenarioName": noun, "newScenarioState": "paid"}
    posted = document(noun, **an_id, **amount)
    found.append(_templated(post | paid, posted) | change | {"priority": 1})
    found.append(_templated(post | refunded, posted) | {"priority": 2})
    return found


def _of_json(**values: str) -> dict[str, Any]:
    return {
        "bodyPatterns": [
            {"matchesJsonPath": {"expression": f"$.{path}", "equalTo": value}}
            for path, value in values.items()
        ]
    }


def _templated(request: Mapping[str, Any], answer: Any) -> dict[str, Any]:
    response = _wiremock(answer) | {"transformers": ["response-template"]}
    return {"request": request, "response": response}


def _wiremock(answer: Any) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    return {"status": 200, "headers": headers, "body": compact(answer)}


def _write_mappings(folder: Path, mappings: list[dict[str, Any]]) -> None:
    (folder / "mappings").mkdir(parents=True)
    (folder / "__files").mkdir()
    (folder / "mappings" / "all.json").write_text(json.dumps({"mappings": mappings}))


# -- gRPC --------------------------------------------------------------------------------------

METHOD: Final = "/sales.v1.Sales/GetCart"
PROTO: Final = """\
syntax = "proto3";
package sales.v1;

service Sales { rpc GetCart(DocumentRequest) returns (Document); }
message DocumentRequest { string id = 1; }
message Line { string sku = 1; int32 quantity = 2; double price = 3; }
message Document { string kind = 1; repeated Line lines = 2; string currency = 3; string note = 4; }
"""


def grpc_suite() -> dict[str, bytes]:
    """Return a suite with the one method, and its example."""
    metadata = {
        "kind": "MockOperation",
        "metadata": {"operationId": "GetCart", "sourceArtifact": "api/sales.proto"},
    }
    response = {"response": {"status": "0", "body": document("cart")}}
    return {
        "api/sales.proto": PROTO.encode(),
        "mock/sales/GetCart.json": _examples({"cart": response}),
        "mock/sales/GetCart.metadata.json": compact(metadata).encode(),
    }


def grpc_request() -> bytes:
    """Return a DocumentRequest with an id, as it is framed in the body of a request."""
    message = b"\x0a\x0212"  # field 1, a text of two characters
    return b"\0" + len(message).to_bytes(4, "big") + message
