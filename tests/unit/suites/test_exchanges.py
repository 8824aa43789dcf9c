"""Exchange examples, literal, by schema and in CUE (reference: control-plane 6.3)."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from tests.support.surfaces import hydrated


def exchanges(text: str, name: str = "op.yaml", spec: str = "{}") -> list[dict[str, Any]]:
    found = hydrated({f"mock/s/{name}": text, "mock/s/op.metadata.yaml": f"spec: {spec}"})
    assert found.warnings == []
    listed: list[dict[str, Any]] = found.only["exchanges"]
    return listed


def body_of(node: str) -> Any:
    (exchange,) = exchanges(f"examples: {{a: {{responseSchema: {{body: {node}}}}}}}")
    return json.loads(exchange["responseBody"])


def test_a_literal_example_is_shown_as_it_is():
    (exchange,) = exchanges(
        """
examples:
  accepted:
    when: [{from: body, param: card.type, value: visa}]
    request:  {headers: {x-tenant: acme}, body: {amount: 10}}
    response: {status: "201", headers: {x-id: "{{request.path.id}}"}, body: {ok: true}}
"""
    )

    assert exchange == {
        "name": "accepted",
        "sourceArtifact": "mock/s/op.yaml",
        "when": [{"from": "body", "param": "card.type", "value": "visa"}],
        "requestHeaders": {"x-tenant": "acme"},
        "requestBody": '{\n  "amount": 10\n}',
        "responseStatus": "201",
        "responseMediaType": "application/json",
        "responseHeaders": {"x-id": "{{request.path.id}}"},
        "responseBody": '{\n  "ok": true\n}',
    }


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        ("plain words", "text/plain"),
        ("'<a/>'", "application/xml"),
        ("'[1]'", "application/json"),
        ("{a: 1}", "application/json"),
    ],
)
def test_the_media_type_comes_from_the_body(body, media_type):
    (exchange,) = exchanges(f"examples: {{a: {{response: {{body: {body}}}}}}}")

    assert exchange["responseMediaType"] == media_type
    assert exchange["responseStatus"] == "200"


def test_the_order_of_the_file_is_kept_and_dispatch_means_when():
    text = """
examples:
  z: {dispatch: [{from: query, param: q, value: 1}]}
  a: {}
"""
    found = exchanges(text)

    assert [each["name"] for each in found] == ["z", "a"]
    assert found[0]["when"] == [{"from": "query", "param": "q", "value": "1"}]


def test_json_may_hold_comment_lines():
    example = '{"response": {"body": "\\ud83d\\ude00"}}'
    text = f'// made by hand\n{{\n  // one\n  "examples": {{"a": {example}}}\n}}'

    assert exchanges(text, "op.json")[0]["responseBody"] == "😀"


@pytest.mark.parametrize(
    ("node", "value"),
    [
        ("{type: object, properties: {a: {type: string, const: x}, b: {type: integer}}}",
         {"a": "x", "b": 0}),
        ("{type: array, items: {type: string, example: a}}", ["a"]),
        ("{type: object, properties: {a: {enum: [2, 1]}}}", {"a": 2}),
        ("{type: object, properties: {a: {type: number}, b: {type: boolean}, c: {type: 'null'}}}",
         {"a": 0.0, "b": False, "c": None}),
        ("{type: object, properties: {a: {type: number, resolve: {path: request.body.a, "
         "fallback: '0'}}}}", {"a": 0}),
        ("{type: object, properties: {a: {type: string, template: 'Hi {{request.query.n}}'}}}",
         {"a": "Hi {{request.query.n}}"}),
        ("{type: object, properties: {a: {type: string, compose: ['P-', "
         "{gen: {kind: int, min: 3, max: 3}}, {resolve: {path: request.path.id}}]}}}",
         {"a": "P-3{{request.path.id}}"}),
        ("{type: object, properties: {a: {type: string, "
         "gen: {kind: pick, options: [x], prefix: p}}}}",
         {"a": "px"}),
        ("{type: object, properties: {a: {type: integer, gen: {kind: int, min: 7, max: 7}}}}",
         {"a": 7}),
    ],
)  # fmt: skip
def test_a_schema_is_shown_as_a_sample(node, value):
    assert body_of(node) == value


def test_generated_values_depend_on_content_operation_and_example():
    example = "{responseSchema: {body: {type: string, gen: {kind: uuid}}}}"
    text, spec = f"examples: {{a: {example}, b: {example}}}", "{dispatcher: sequence}"
    first, again = exchanges(text, spec=spec), exchanges(text, spec=spec)
    other = exchanges(text + "\n# changed", spec=spec)

    assert first == again
    assert first[0]["responseBody"] != first[1]["responseBody"]
    assert first[0]["responseBody"] != other[0]["responseBody"]


BROKEN_EXAMPLES = [
    ("examples: {a: {response: {status: '700'}}}", 1, "not a status"),
    ("examples:\n  a: {when: [{from: cake, param: x, value: y}]}", 2, "cake"),
    ("examples:\n  a: {when: [{from: query}]}", 2, "requires param"),
    ("examples:\n  a: {responseSchema: {body: {type: thing}}}", 2, "thing"),
    ("examples:\n  a: {responseSchema: {body: {pattern: '(?=x)'}}}", 2, "RE2"),
    ("examples:\n  a: {responseSchema: {body: {gen: {kind: uuid}, template: x}}}", 2, "only one"),
    ("examples:\n  a: {responseSchema: {body: {gen: {kind: poem}}}}", 2, "poem"),
    ("examples:\n  a: {responseSchema: {body: {resolve: {}}}}", 2, "requires path"),
    ("examples:\n  a: []", 2, "mapping"),
    ("examples: 3", 1, "mapping"),
    ("examples:\n  - {response: {}}", 2, "needs a name"),
    ("- a", 1, "mapping"),
    ("examples: {", None, ""),
]


@pytest.mark.parametrize(("text", "line", "word"), BROKEN_EXAMPLES)
def test_a_broken_example_is_a_warning_with_its_place(text, line, word):
    found = hydrated(
        {
            "mock/s/op.yaml": text,
            "mock/s/op.metadata.yaml": "",
            "mock/s/fine.yaml": "examples: {a: {}}",
        }
    )

    ((code, file, at, _column),) = found.warnings
    assert (code, file) == ("mock_examples_invalid", "mock/s/op.yaml")
    assert at == line or line is None
    assert word in found.details[0]
    assert found.operation("s", "op")["exchanges"] == []
    assert found.operation("s", "fine")["exchanges"]


def test_an_example_that_never_answers_is_a_warning():
    found = hydrated({"mock/s/op.yaml": "examples:\n  a: {}\n  b: {}\n"})

    assert found.warnings == [("mock_unreachable_example", "mock/s/op.yaml", 3, None)]


CUE = """
#Money: {amount: number & >=0 & <=9, currency: *"EUR" | string}

examples: {
	paid: {
		when: [{from: "body", param: "kind", value: "x"}]
		responseSchema: {
			status:  "201"
			headers: {"x-trace": string @gen(kind=uuid)}
			body: {
				id:    string @gen(kind=string,prefix="pay_",length=4)
				total: #Money
				state: "new" | "paid"
				note?: string @template("Hi {{request.query.name || 'you'}}")
				parts: [...{n: int & >1}]
				code:  =~"^[a-z]+$"
				whole: string @compose("P-",gen(kind=int,min=5,max=5),resolve(path="request.path"))
				none:  null
			}
		}
	}
}
"""


def test_cue_is_mapped_to_nodes():
    found = hydrated({"mock/s/op.cue": CUE, "mock/s/op.metadata.yaml": ""})

    assert found.warnings == []
    (exchange,) = found.only["exchanges"]
    body = json.loads(exchange["responseBody"])
    assert body.pop("id").startswith("pay_")
    assert body == {
        "total": {"amount": 0.0, "currency": "EUR"},
        "state": "new",
        "note": "Hi {{request.query.name || 'you'}}",
        "parts": [{"n": 0}],
        "code": "",
        "whole": "P-5{{request.path}}",
        "none": None,
    }
    node = found.typed[0].operations[0].exchanges[0].response.body_node
    assert "note" not in node.required
    assert {"id", "total", "state"} <= set(node.required)
    assert node.properties["parts"].items.properties["n"].minimum == 2
    assert node.properties["code"].pattern == "^[a-z]+$"
    amount = node.properties["total"].properties["amount"]
    assert (amount.minimum, amount.maximum, amount.type) == (0, 9, "number")
    assert node.properties["total"].properties["currency"].type == "string"
    assert node.properties["state"].enum == ("new", "paid")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('import "strings"\nexamples: {}', (1, 8)),
        ("examples: {a: {response: {body: string}}}", (1, 33)),
        ("examples: a: responseSchema: body: a: string | int", (1, 39)),
        ("examples: a: responseSchema: body: a: !=3", (1, 39)),
        ("examples: {\n  a: nothing\n}", (2, 6)),
        ("examples: {a: {", (1, 15)),
        ('examples: a: responseSchema: body: a: string @gen(kind="x"', (1, 46)),
    ],
)
def test_cue_outside_the_subset_is_a_warning_with_its_place(text, place):
    found = hydrated({"mock/s/op.cue": text, "mock/s/op.metadata.yaml": ""})

    ((code, file, line, column),) = found.warnings
    assert (code, file, (line, column)) == ("cue_unsupported", "mock/s/op.cue", place)
    assert "CUE_BINARY" not in found.details[0]
    assert found.only["exchanges"] == []


def test_a_cue_file_may_be_json():
    text = '{"examples": {"a": {"response": {"status": "204"}}}}'

    assert exchanges(text, "op.cue")[0]["responseStatus"] == "204"


CONTRACT = """
openapi: 3.1.0
paths:
  /goods/{kind}/{id}:
    post:
      operationId: op
      parameters:
        - {name: kind, in: path, required: true, schema: {type: string, example: "a b"}}
        - {name: id, in: path, required: true, schema: {type: integer}}
        - {name: q, in: query, required: true, example: "it's"}
        - {name: X-Tenant, in: header, required: true, example: acme}
      requestBody:
        content: {application/json: {schema: {$ref: '#/components/schemas/Good'}}}
components: {schemas: {Good: {type: object, properties: {name: {type: string, example: "it's"}}}}}
"""


def test_the_command_works_as_printed():
    found = hydrated({"api/goods.yaml": CONTRACT})

    assert shlex.split(found.only["curlCommand"]) == [
        "curl", "-i", "-X", "POST",
        "http://localhost:8090/mocks/rest/shop/goods/goods/a%20b/0?q=it%27s",
        "-H", "X-Tenant: acme", "-H", "Content-Type: application/json",
        "--data-raw", '{"name": "it\'s"}',
    ]  # fmt: skip


def test_the_command_takes_what_the_first_example_wants():
    examples = """
examples:
  a:
    when:
      - {from: path, param: id, value: "7"}
      - {from: query, param: q, value: "$(rm -rf /)"}
      - {from: body, param: card.type, value: visa}
    request: {headers: {x-tenant: "other\\nevil"}}
"""
    found = hydrated({"api/goods.yaml": CONTRACT, "mock/goods/op.yaml": examples})

    words = shlex.split(found.only["curlCommand"])
    assert words[4].endswith("/goods/a%20b/7?q=%24%28rm+-rf+%2F%29")
    assert "x-tenant: other evil" in words
    assert json.loads(words[-1]) == {"name": "it's", "card": {"type": "visa"}}
    assert "\n" not in found.only["curlCommand"]


NWO = '"nwo" is not known'


@pytest.mark.parametrize(
    ("example", "line", "says"),
    [
        ("response:\n      body: 'at {{nwo}}'", 4, f"{{{{nwo}}}}: {NWO}"),
        ("response:\n      body:\n        a: x\n        b: '{{nwo}}'", 6, NWO),
        ("response:\n      body: {'{{nwo}}': 1}", 4, NWO),
        ('response:\n      body: \'{"a": "{{nwo}}"}\'', 4, NWO),
        ("response:\n      headers:\n        x-a: '{{request.pth.id}}'", 5, "did you mean path?"),
        ("response:\n      headers: [{name: x-a, value: '{{nwo}}'}]", 4, NWO),
        ("response:\n      mediaType: '{{nwo}}'", 4, NWO),
        ("responseBody: '{{nwo}}'", 3, NWO),
        ("responseHeaders: {x-a: '{{nwo}}'}", 3, NWO),
        ("responseSchema:\n      body: {template: '{{uper(request.path.id)}}'}", 4, '"uper"'),
        ("responseSchema:\n      body:\n        a: '{{nwo}}'", 5, NWO),
        ("responseSchema:\n      body: {resolve: {path: request.pth.id}}", 4, "did you mean path?"),
        ("responseSchema:\n      body: {resolve: {path: 'a b'}}", 4, "it is not a path"),
        (
            "responseSchema:\n      body: {compose: [a, {resolve: {path: now}}]}",
            4,
            '"now" is not known',
        ),
        ("responseSchema:\n      headers: {properties: {x-a: {template: '{{nwo}}'}}}", 4, NWO),
    ],
)
def test_an_unknown_path_or_function_of_a_template_is_an_error_with_its_line(example, line, says):
    text = f"examples:\n  a:\n    {example}\n  good: {{response: {{body: '{{{{state.x}}}}'}}}}\n"
    found = hydrated({"mock/s/op.yaml": text})

    ((code, _, at, _),), (detail,) = found.warnings, found.details
    assert (code, at) == ("mock_examples_invalid", line)
    assert says in detail
    assert detail.startswith('the example "a" is left out: ')
    assert [each["name"] for each in found.only["exchanges"]] == ["good"]


@pytest.mark.parametrize(
    "example",
    [
        "request: {body: '{{nwo}}', headers: {x-a: '{{nwo}}'}}",
        "when: [{from: query, param: q, value: '{{nwo}}'}]",
        'response: {body: \'{"a": "{{request.query[\\"b c\\"]}}"}\'}',
        "responseSchema: {body: {const: '{{nwo}}'}}",
    ],
)
def test_what_is_no_template_may_look_like_one(example):
    assert len(exchanges(f"examples:\n  a:\n    {example}")) == 1


@pytest.mark.parametrize(
    "spec",
    [
        "fallback: {mode: static, body: '{{nwo}}'}",
        "fallback: {mode: static, status: '{{nwo}}'}",
        "fallback: {mode: static, mediaType: '{{nwo}}'}",
        "fallback: {mode: static, headers: {x-a: '{{nwo}}'}}",
        "state: {lookupKeyTemplate: 'a:{{nwo}}'}",
        "state: {mutationKeyTemplate: 'a:{{nwo}}'}",
        "state: {transitions: [{set: {a: '{{nwo}}'}}]}",
        "state: {transitions: [{mutationKeyTemplate: '{{nwo}}'}]}",
    ],
)
def test_an_unknown_path_in_metadata_is_an_error_of_the_operation(spec):
    mock = "examples: {a: {response: {body: ok}}}"
    found = hydrated({"mock/s/op.yaml": mock, "mock/s/op.metadata.yaml": f"spec:\n  {spec}\n"})

    ((code, _, at, _),), (detail,) = found.warnings, found.details
    assert (code, at) == ("mock_metadata_invalid", 2)
    assert NWO in detail
    (surface,) = found.typed
    assert surface.operations[0].mock.problems == (detail,)


def test_a_body_of_bytes_is_shown_in_base64_and_read_as_it_is_shown():
    for response in ("response: {bodyBase64: /wD+}", "responseBodyBase64: /wD+"):
        found = hydrated({"mock/shop/get.yaml": f"examples: {{a: {{{response}}}}}"})
        (shown,) = found.only["exchanges"]
        assert shown["responseBodyBase64"] == "/wD+"
        assert "responseBody" not in shown
        assert found.warnings == []


@pytest.mark.parametrize("key", ["lookupKeyTemplate", "mutationKeyTemplate"])
def test_a_key_of_state_has_no_counter(key):
    spec = f"state: {{{key}: \"{{{{upper(counter('n'))}}}}\"}}"
    found = hydrated(
        {"mock/s/op.yaml": "examples: {a: {}}", "mock/s/op.metadata.yaml": f"spec: {{{spec}}}"}
    )
    assert "a key of state has no counter" in found.details[0]
