"""What `mock lint` says about mocks, by file and line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from surfaces import hydrate
from surfaces.mock_lint import lint_mocks

CONTRACT = json.dumps(
    {
        "openapi": "3.0.3",
        "paths": {
            "/orders/{id}": {
                "parameters": [{"name": "id", "in": "path", "schema": {"type": "integer"}}],
                "get": {
                    "operationId": "getOrder",
                    "parameters": [
                        {"name": "state", "in": "query", "schema": {"enum": ["new", "paid"]}},
                        {"name": "tags", "in": "query", "schema": {"type": "array"}},
                        {"name": "X-Mode", "in": "header", "schema": {"enum": ["a"]}},
                    ],
                    "responses": {
                        "200": {"content": {"application/json": {"schema": {
                            "type": "object",
                            "required": ["id"],
                            "properties": {"id": {"type": "integer"}, "name": {"maxLength": 3}},
                        }}}},
                        "4XX": {"description": ""},
                    },
                },
            }
        },
    }
)  # fmt: skip


def _linted(examples: str, spec: str = "") -> list[tuple[str, str, int, str]]:
    files = {
        "api/shop.json": CONTRACT,
        "mock/shop/getOrder.yaml": f"examples:\n{examples}",
        **({"mock/shop/getOrder.metadata.yaml": f"spec: {{{spec}}}"} if spec else {}),
    }
    found = hydrate(
        {path: text.encode() for path, text in files.items()}, suite_id="s", base_url=""
    )
    return [(each.code, each.severity, each.line, each.message)
            for each in lint_mocks(found.surfaces, found.warnings)]  # fmt: skip


def _when(source: str, param: str, value: str) -> str:
    return f"{{from: {source}, param: {param}, value: '{value}'}}"


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        (("path", "orderId", "1"), "/orders/{id} has no parameter orderId"),
        (("path", "id", "x"), "it must be integer"),
        (("query", "state", "old"), "it must be one of the enum"),
        (("header", "x-mode", "b"), "it must be one of the enum"),
        (("body", "a", "1"), "a GET has no body"),
        (("path", "id", "12"), ""),
        (("query", "state", "paid"), ""),
        (("query", "tags", "a,b"), ""),
        (("query", "other", "x"), ""),
        (("header", "X-Mode", "a"), ""),
        (("state", "status", "x"), ""),
    ],
)
def test_conditions_that_no_request_fulfils(condition, says):
    found = _linted(f"  a: {{when: [{_when(*condition)}], response: {{body: {{id: 1}}}}}}")
    if not says:
        assert found == []
        return
    ((code, severity, line, message),) = found
    assert (code, severity, line) == ("mock_impossible_condition", "warning", 2)
    assert says in message


def test_one_parameter_with_two_values_never_matches():
    both = ", ".join(_when("query", "other", value) for value in "xy")
    found = _linted(f"  a: {{when: [{both}], response: {{body: {{id: 1}}}}}}")
    assert {code for code, *_ in found} == {"mock_impossible_condition"}


@pytest.mark.parametrize(
    ("response", "code", "says"),
    [
        ("body: {id: x}", "mock_breaks_contract", "at /id: it must be integer"),
        ("body: {name: a}", "mock_breaks_contract", '"id" is missing'),
        ("body: 'no json'", "mock_breaks_contract", "the body is not JSON"),
        ("body: {id: 1, name: long}", "mock_breaks_contract", "at most 3 characters"),
        ("status: '503'", "mock_not_in_contract", "answers 503"),
        ("body: {id: 1}", "", ""),
        ("body: {id: 1, name: '{{request.path.id}}'}", "", ""),
        ("status: '404', body: {id: x}", "", ""),
    ],
)
def test_responses_that_break_their_contract(response, code, says):
    found = _linted(f"  a:\n    response: {{{response}}}")
    if not code:
        assert found == []
        return
    ((found_code, severity, line, message),) = found
    assert (found_code, line) == (code, 3)
    assert severity == ("error" if code == "mock_breaks_contract" else "warning")
    assert says in message


def test_a_schema_example_is_checked_by_its_sample():
    node = "{type: object, properties: {id: {type: string, gen: {kind: uuid}}}}"
    ((code, *_),) = _linted(f"  a: {{responseSchema: {{body: {node}}}}}")
    assert code == "mock_breaks_contract"


OK = "{response: {body: {id: 1}}}"


@pytest.mark.parametrize(
    ("spec", "codes"),
    [
        ("dispatcher: sequence, dispatcherRules: a", ["mock_unreachable_example"]),
        ("dispatcher: random, dispatcherRules: 'a=1'", ["mock_unreachable_example"]),
        ("dispatcher: random, dispatcherRules: 'a=1; b=2'", []),
        ("dispatcher: sequence, dispatcherRules: 'a, c'", None),
        ("fallback: {mode: example, exampleName: gone}", None),
        ("state: {transitions: [{onExample: gone}]}", None),
    ],
)
def test_examples_that_rules_leave_out_and_names_that_do_not_exist(spec, codes):
    second = f"{{when: [{_when('query', 'q', '1')}], response: {{body: {{id: 2}}}}}}"
    found = _linted(f"  a: {OK}\n  b: {second}", spec)
    if codes is None:
        assert ("mock_metadata_invalid", "error") in {(code, how) for code, how, *_ in found}
    else:
        assert [code for code, *_ in found] == codes


def test_equal_conditions_and_operations_outside_of_the_contract():
    found = _linted(f"  a: {OK}\n  b: {OK}", "path: /gone, method: GET")
    codes = {code for code, *_ in found}
    assert "mock_unreachable_example" in codes

    gone: dict[str, Any] = {
        "api/shop.json": CONTRACT,
        "mock/shop/gone.yaml": f"examples: {{a: {OK}}}",
        "mock/shop/gone.metadata.yaml": "spec: {path: /gone, method: PUT}",
    }
    made = hydrate({path: text.encode() for path, text in gone.items()}, suite_id="s", base_url="")
    (only,) = lint_mocks(made.surfaces, made.warnings)
    assert (only.code, only.file) == ("mock_not_in_contract", "mock/shop/gone.yaml")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("delayMs: 5", 'spec has no key "delayMs", which is ignored; did you mean delay?'),
        ("state: {lookupKey: a}", "did you mean lookupKeyTemplate?"),
        ("state: {transitions: [{onExample: a, sets: {b: c}}]}", "did you mean set?"),
        ("fallback: {mode: static, code: '404'}", 'fallback has no key "code"'),
        ("parameterConstraints: [{name: q, in: query}]", "known: name, source, required,"),
    ],
)
def test_keys_of_metadata_that_mean_nothing(spec, says):
    ((code, how, line, message),) = _linted(f"  a: {OK}", spec)
    assert (code, how, line) == ("unknown_key", "warning", 1)
    assert says in message


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (
            "dispatcher: sequense",
            '"sequense" is not known and treated as example; did you mean seq',
        ),
        ("dispatcher: uri_parts", "treated as example; known: example, script, sequence, random"),
        ("adapter: grcp", "it is derived from the protocol; did you mean grpc?"),
    ],
)
def test_a_value_that_a_default_stands_in_for_is_a_warning(spec, says):
    ((code, how, line, message),) = _linted(f"  a: {OK}", spec)
    assert (code, how, line) == ("unknown_value", "warning", 1)
    assert says in message


def test_known_keys_in_any_case_say_nothing():
    assert _linted(f"  a: {OK}", "DELAYMILLIS: 5, state: {lookupkeytemplate: a}") == []


def test_what_belongs_below_spec_and_how_many_keys_are_said():
    files = {
        "mock/shop/a.yaml": f"examples: {{a: {OK}}}",
        "mock/shop/a.metadata.yaml": "metadata: {team: x}\ndelaymillis: 5\n",
        "mock/shop/b.yaml": f"examples: {{a: {OK}}}",
        "mock/shop/b.metadata.yaml": f"spec: {{{', '.join(f'x{n}: 1' for n in range(50))}}}",
    }
    made = hydrate({path: text.encode() for path, text in files.items()}, suite_id="s", base_url="")
    first, *others = made.warnings
    assert (first.file, first.line) == ("mock/shop/a.metadata.yaml", 2)
    assert first.detail == '"delayMillis" belongs below spec and is ignored here'
    assert len(others) == 20


def _document_linted(path: str, document: Any, **more: str) -> list[tuple[str, str, str, str]]:
    files = {path: json.dumps(document), **more}
    made = hydrate({name: text.encode() for name, text in files.items()}, suite_id="s", base_url="")
    return [(each.code, each.severity, each.file, each.message)
            for each in lint_mocks(made.surfaces, made.warnings)]  # fmt: skip


def test_examples_that_stay_texts_where_a_value_is_wanted():
    texts = {"good": {"value": '{"id": 1}'}, "bad": {"value": '{"id": 1'}}
    schema = {"type": "object"}
    document = {
        "openapi": "3.0.3",
        "paths": {"/a/{b}": {
            "parameters": [{"name": "b", "in": "path"}],
            "get": {"responses": {
                "200": {"content": {
                    "application/json": {"schema": schema, "examples": texts},
                    "application/xml": {"schema": schema, "example": "<a/>"},
                }},
                "400": {"$ref": "#/components/responses/Bad"},
            }},
            "put": {
                "requestBody": {"content": {
                    "application/vnd.a+json": {"schema": schema, "example": "nothing"},
                    "text/json": {"schema": {"type": "string"}, "example": "nothing"},
                }},
                "responses": {"400": {"$ref": "#/components/responses/Bad"}},
            },
        }},
        "components": {"responses": {"Bad": {"content": {
            "application/json": {"schema": {"type": "array"}, "example": "12"},
        }}}},
    }  # fmt: skip

    found = _document_linted("api/shop.json", document)

    code = "mock_example_is_text"
    assert {each[:3] for each in found} == {(code, "warning", "api/shop.json")}
    operation = "/paths/~1a~1{b}"
    assert [message.partition("is answered")[0].split()[-1] for *_, message in found] == [
        f"{operation}/get/responses/200/content/application~1json/examples/bad/value",
        f"{operation}/put/requestBody/content/application~1vnd.a+json/example",
        "/components/responses/Bad/content/application~1json/example",
    ]
    assert "Expecting ',' delimiter (line 1, column 9 of the text)" in found[0][3]
    assert found[2][3].endswith("it is neither an object nor an array")


def test_an_example_of_a_contract_that_answers_nothing_is_not_looked_at():
    media = {"schema": {"type": "object"}, "example": "nothing"}
    operation = {"operationId": "getA", "responses": {"200": {"content": {
        "application/json": media}}}}  # fmt: skip
    document = {"openapi": "3.0.3", "paths": {"/a": {"get": operation}}}
    mock = {"mock/shop/getA.yaml": "examples: {a: {response: {body: {}}}}"}

    assert len(_document_linted("api/shop.json", document)) == 1
    assert _document_linted("api/shop.json", document, **mock) == []


def test_what_of_a_contract_calls_are_not_checked_against():
    schema = {"type": "object", "properties": {"a": {"pattern": "^(?!x)"}, "b": {"$ref": "#/no"}}}
    post = {"operationId": "add", "requestBody": {"content": {"application/json": {
        "schema": schema}}}}  # fmt: skip
    document = {"openapi": "3.0.3", "paths": {"/a": {"post": post}}}

    found = _document_linted("api/shop.json", document)

    assert [(code, message.partition("whole: ")[2]) for code, _, _, message in found] == [
        ("contract_not_checked", '"#/no" leads to no schema'),
        (
            "contract_not_checked",
            "the pattern ^(?!x) is not one of linear time (no look-around)",
        ),
        ("contract_invalid", ""),  # what leads to nothing
    ]


@pytest.mark.parametrize(
    ("fault", "count"), [("reset", 0), ("empty", 0), ("garbage", 0), ("half", 1)]
)
def test_an_answer_that_no_client_sees_is_not_compared_with_its_contract(fault, count):
    found = _linted(f"  a: {{response: {{status: '299', fault: {fault}}}}}")
    assert [code for code, *_ in found] == ["mock_not_in_contract"] * count
