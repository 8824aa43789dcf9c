"""Mocks of WireMock and Microcks as mocks of a suite (reference: control-plane 18.10)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mocks.model.calls import MockAnswer, MockRequest
from readers import Unreadable
from surfaces import hydrate
from surfaces.imports import Imported, convert_file, convert_folder
from tests.support.mocks import Mocks, mocks_of

NEITHER = "neither a mapping of WireMock nor examples of Microcks"


def _imported(*mappings: dict[str, Any], **files: bytes) -> Imported:
    content = json.dumps({"mappings": mappings}).encode()
    return convert_file("stubs.json", content, files.get, surface="shop")


def _mocks(found: Imported) -> Mocks:
    assert [each.detail for each in found.warnings] == []
    return mocks_of({path: content.decode() for path, content in found.files.items()})


def _mapping(request: dict[str, Any], body: str = "yes", **more: Any) -> dict[str, Any]:
    request = {"method": "POST", "urlPath": "/orders", **request}
    return {"request": request, "response": {"status": 200, "body": body}, **more}


async def _answer(
    mocks: Mocks, target: str, *, method: str = "POST", headers: Any = None, body: bytes = b""
) -> MockAnswer:
    path, _, query = target.partition("?")
    found = mocks.surface.route(method, path)
    assert found is not None
    request = MockRequest(
        method, path, headers=headers or {}, query=dict(parse_qsl(query)), params=found[1],
        raw_body=body, raw_query=query,
    )  # fmt: skip
    return await mocks.engine.answer(found[0], request)


async def _says(mocks: Mocks, target: str, **options: Any) -> str:
    answer = await _answer(mocks, target, **options)
    return answer.body.decode() if not answer.error_code else answer.error_code


@pytest.mark.parametrize(
    ("request_", "hits", "misses"),
    [
        ({"queryParameters": {"q": {"equalTo": "a"}}}, {"query": "q=a"}, {"query": "q=b"}),
        ({"queryParameters": {"q": {"equalTo": "a", "caseInsensitive": True}}},
         {"query": "q=A"}, {"query": "q=ab"}),
        ({"queryParameters": {"q": {"contains": "b"}}}, {"query": "q=abc"}, {"query": "q=ac"}),
        ({"queryParameters": {"q": {"doesNotContain": "b"}}}, {"query": "q=a"}, {"query": "q=b"}),
        ({"queryParameters": {"q": {"matches": "[a-c]+"}}}, {"query": "q=ab"}, {"query": "q=abx"}),
        ({"queryParameters": {"q": {"doesNotMatch": "[a-c]+"}}},
         {"query": "q=x"}, {"query": "q=a"}),
        ({"queryParameters": {"q": {"absent": True}}}, {}, {"query": "q=a"}),
        ({"queryParameters": {"q": {"not": {"equalTo": "a"}}}}, {"query": "q=b"}, {"query": "q=a"}),
        ({"queryParameters": {"q": {"or": [{"equalTo": "a"}, {"contains": "zz"}]}}},
         {"query": "q=azzb"}, {"query": "q=ab"}),
        ({"queryParameters": {"q": {"and": [{"contains": "a"}, {"contains": "b"}]}}},
         {"query": "q=ab"}, {"query": "q=a"}),
        ({"headers": {"X-A": {"equalTo": "1"}}}, {"headers": {"x-a": "1"}}, {}),
        ({"headers": {"Authorization": {"equalTo": "Bearer s3cret-s3cret"}}},
         {"headers": {"authorization": "Bearer other"}}, {}),
        ({"basicAuthCredentials": {"username": "u", "password": "s3cret-s3cret"}},
         {"headers": {"authorization": "Basic x"}}, {}),
        ({"cookies": {"c": {"equalTo": "1"}}}, {"headers": {"cookie": "c=1"}}, {}),
        ({"urlPath": None, "url": "/orders?a=1&b=2"}, {"query": "a=1&b=2"}, {"query": "a=1"}),
        ({"bodyPatterns": [{"equalToJson": '{"a": {"b": 1}, "l": [1, 2]}'}]},
         {"body": b'{"a": {"b": 1}, "l": [1, 2], "c": 1}'}, {"body": b'{"a": {"b": 1}, "l": [2]}'}),
        ({"bodyPatterns": [{"equalToJson": {"a": "${json-unit.any-string}", "b": 1}}]},
         {"body": b'{"a": "x", "b": 1}'}, {"body": b'{"b": 2}'}),
        ({"bodyPatterns": [{"equalToJson": [1, 2]}]}, {"body": b"[1, 2]"}, {"body": b"[1]"}),
        ({"bodyPatterns": [{"matchesJsonPath": "$.a.b"}]},
         {"body": b'{"a": {"b": 1}}'}, {"body": b'{"a": {}}'}),
        ({"bodyPatterns": [{"matchesJsonPath": "$[?(@.a == 'x')]"}]},
         {"body": b'{"a": "x"}'}, {"body": b'{"a": "y"}'}),
        ({"bodyPatterns": [{"matchesJsonPath": {"expression": "$.a", "contains": "x"}}]},
         {"body": b'{"a": "axb"}'}, {"body": b'{"a": "b"}'}),
        ({"bodyPatterns": [{"matchesXPath": "//order[@id='7']"}]},
         {"body": b"<order id='7'/>"}, {"body": b"<order id='8'/>"}),
        ({"bodyPatterns": [{"contains": "needle"}]},
         {"body": b'{"a": ["hay", "needle"]}'}, {"body": b'{"a": "hay"}'}),
    ],
)  # fmt: skip
async def test_a_mapping_of_wiremock_answers_what_it_answered(request_, hits, misses):
    mapping = _mapping(request_)
    mapping["request"] = {key: each for key, each in mapping["request"].items() if each}
    found = _imported(mapping)
    mocks = _mocks(found)

    def target(call: dict[str, Any]) -> str:
        return "/orders" + (f"?{call['query']}" if "query" in call else "")

    for call, wanted in ((hits, "yes"), (misses, "mock_no_match")):
        options = {key: each for key, each in call.items() if key != "query"}
        assert await _says(mocks, target(call), **options) == wanted
    assert "s3cret" not in "".join(each.decode() for each in found.files.values())


@pytest.mark.parametrize(
    ("url", "path", "misses"),
    [
        ({"urlPathTemplate": "/orders/{id}"}, "/orders/7", None),
        ({"urlPathTemplate": "/orders/{id}", "pathParameters": {"id": {"matches": "[0-9]+"}}},
         "/orders/7", "/orders/x"),
        ({"urlPathPattern": "/orders/[0-9]+/items"}, "/orders/7/items", "/orders/x/items"),
        ({"urlPathPattern": r"^/v1\.0/(cats|dogs)/.*/x$"}, "/v1.0/dogs/a/x", "/v1.0/cows/a/x"),
        ({"urlPattern": r"/orders/[a-z]+\?page=\d+"}, "/orders/a?page=1", "/orders/a?page=b"),
    ],
)  # fmt: skip
async def test_patterns_of_paths_are_parameters(url, path, misses):
    mocks = _mocks(_imported({"request": {"method": "GET", **url}, "response": {"body": "yes"}}))

    assert await _says(mocks, path, method="GET") == "yes"
    if misses:
        assert await _says(mocks, misses, method="GET") == "mock_no_match"


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        (_mapping({"urlPath": "", "urlPattern": ".*"}), "it has two URLs"),
        ({"request": {"urlPattern": ".*"}, "response": {}}, "is for paths of any length"),
        ({"request": {"urlPathPattern": "/a/.*"}, "response": {}}, "is for paths of any length"),
        ({"request": {"method": "GET"}, "response": {}}, "it answers every path"),
        (_mapping({"customMatcher": {}}), "request.customMatcher"),
        (_mapping({"multipartPatterns": []}), "request.multipartPatterns"),
        (_mapping({"bodyPatterns": [{"equalToXml": "<a/>"}]}), "bodyPatterns: equalToXml"),
        (_mapping({"headers": {"d": {"before": "now"}}}), "d: before"),
        (_mapping({"queryParameters": {"q": {"hasExactly": []}}}), "q: hasExactly"),
        (_mapping({"headers": {"x": {"equalTo": "1"}}}) | {"response": {"proxyBaseUrl": "http://a"}},
         "proxyBaseUrl with conditions"),
    ],
)  # fmt: skip
def test_a_mapping_that_asks_for_more_than_conditions_can_is_left_out_and_named(mapping, said):
    found = _imported({**mapping, "name": "odd"}, _mapping({"urlPath": "/fine"}))

    (text,) = [each for each in found.left_out if said in each]
    assert text.startswith("stubs.json: mappings[0] (odd): left out: ")
    assert found.examples == 1


@pytest.mark.parametrize(
    ("response", "said"),
    [
        ({"fault": "SMOKE"}, 'the fault of the response is left out: "smoke" is not a fault; '
         "known: reset, empty, half, garbage, dribble"),
        ({"delayDistribution": {"type": "gamma"}}, "the delay of the response is left out: "
         'delay has no key "gamma"; known: fixed, uniform, lognormal'),
        ({"base64Body": "/9j/"}, "response.base64Body is not text and left out"),
        ({"bodyFileName": "none.json"}, "the file __files/none.json is not there"),
        ({"transformers": ["mine"]}, "the transformer mine is left out"),
        ({"body": "{{randomDecimal}}", "transformers": ["response-template"]},
         "the template {{randomDecimal}} has no equal and stays as text"),
    ],
)  # fmt: skip
def test_what_a_response_loses_is_said(response, said):
    mapping = _mapping({}, name="odd") | {"response": {"status": 201, **response}}
    found = _imported({**mapping, "postServeActions": [{"name": "mine", "parameters": {}}]})

    assert f"stubs.json: mappings[0] (odd): {said}" in found.left_out
    assert "stubs.json: mappings[0] (odd): mine is left out" in found.left_out
    assert {each.code for each in found.warnings} <= {"recording_invalid"}


@pytest.mark.parametrize(
    ("response", "made"),
    [
        ({"fault": "CONNECTION_RESET_BY_PEER"}, {"fault": {"kind": "reset"}}),
        ({"fault": "EMPTY_RESPONSE"}, {"fault": {"kind": "empty"}}),
        ({"fault": "MALFORMED_RESPONSE_CHUNK"}, {"fault": {"kind": "half"}}),
        ({"fault": "RANDOM_DATA_THEN_CLOSE"}, {"fault": {"kind": "garbage"}}),
        ({"chunkedDribbleDelay": {"numberOfChunks": 5, "totalDuration": 1000}},
         {"fault": {"kind": "dribble", "chunks": 5, "overMillis": 1000}}),
        ({"delayDistribution": {"type": "uniform", "lower": 15, "upper": 25}},
         {"delay": {"lowestMillis": 15, "highestMillis": 25}}),
        ({"delayDistribution": {"type": "lognormal", "median": 80, "sigma": 0.4}},
         {"delay": {"lowestMillis": 0, "highestMillis": 60_000, "medianMillis": 80, "sigma": 0.4}}),
        ({"delayDistribution": {"type": "fixed", "milliseconds": 30}},
         {"delay": {"lowestMillis": 30, "highestMillis": 30}}),
        ({"fixedDelayMilliseconds": 90_000},
         {"delay": {"lowestMillis": 60_000, "highestMillis": 60_000}}),
    ],
)  # fmt: skip
def test_faults_and_delays_are_those_of_the_stub(response, made):
    found = _imported(_mapping({}) | {"response": response})

    (surface,) = hydrate(found.files, suite_id="s", base_url="").documents
    (exchange,) = surface["operations"][0]["exchanges"]
    assert {key: exchange[key] for key in ("fault", "delay") if key in exchange} == made
    assert not found.left_out


@pytest.mark.parametrize(
    "form",
    [
        lambda webhook: {"serveEventListeners": [{"name": "webhook", "parameters": webhook}]},
        lambda webhook: {"postServeActions": [{"name": "webhook", "parameters": webhook}]},
        lambda webhook: {"postServeActions": {"webhook": webhook}},
    ],
)
async def test_webhooks_are_callbacks(form):
    webhook = {
        "method": "PUT",
        "url": "{{jsonPath originalRequest.body '$.callbackUrl'}}",
        "headers": {"X-Q": "{{originalRequest.query.q}}"},
        "body": '{"id": "{{jsonPath originalRequest.body \'$.id\'}}"}',
        "delay": {"type": "uniform", "lower": 5, "upper": 5},
    }
    found = _imported(_mapping({}, **form(webhook)))
    assert not found.left_out
    answer = await _answer(
        _mocks(found), "/orders?q=1", body=b'{"id": "7", "callbackUrl": "http://partner.test/"}'
    )
    (make,) = answer.callbacks
    made = make()
    assert (made.method, made.url, made.delay_ms) == ("PUT", "http://partner.test/", 5)
    assert made.headers == {"x-q": "1", "content-type": "application/json"}
    assert json.loads(made.body) == {"id": "7"}


def test_a_webhook_that_cannot_be_sent_is_said():
    wrong = {"url": "ftp://partner.test/", "base64Body": "aGk="}
    found = _imported(_mapping({}, serveEventListeners=[{"name": "webhook", "parameters": wrong}]))
    assert [each.partition("]: ")[2] for each in found.left_out] == [
        "webhook.base64Body is left out",
        "a webhook is left out: the url of a callback begins with http:// or https://",
    ]


async def test_responses_have_their_status_headers_bodies_and_templates():
    templated = {
        "status": 201,
        "headers": {"Content-Type": "application/json", "X-Id": "{{request.path.[1]}}"},
        "jsonBody": {"id": "{{request.pathSegments.[1]}}", "q": "{{request.query.q}}",
                     "h": "{{request.headers.X-H}}", "b": "{{jsonPath request.body '$.a.b'}}",
                     "m": "{{{request.method}}}", "kind": "{{request.path.[0]}}"},
        "transformers": ["response-template"],
        "fixedDelayMilliseconds": 20,
    }  # fmt: skip
    found = _imported(
        {"request": {"method": "PUT", "urlPathTemplate": "/orders/{id}"}, "response": templated},
        _mapping({"urlPath": "/file"}) | {"response": {"bodyFileName": "a/b.json"}},
        _mapping({"urlPath": "/plain"}, body="{{request.query.q}} 'x'"),
        _mapping({"urlPath": "/bytes"}) | {"response": {"base64Body": "aGk="}},
        **{"__files/a/b.json": b'{"of": "a file"}'},
    )
    mocks = _mocks(found)

    answer = await _answer(
        mocks, "/orders/7?q=1", method="PUT", headers={"x-h": "2"}, body=b'{"a": {"b": "3"}}'
    )
    assert (answer.status, answer.delay_ms, dict(answer.headers)) == (201, 20, {"X-Id": "7"})
    assert json.loads(answer.body) == {
        "id": "7", "q": "1", "h": "2", "b": "3", "m": "PUT", "kind": "orders",
    }  # fmt: skip
    assert json.loads(await _says(mocks, "/file")) == {"of": "a file"}
    assert await _says(mocks, "/plain?q=1") == "{{request.query.q}} 'x'"
    assert await _says(mocks, "/bytes") == "hi"


async def test_scenarios_are_state_that_all_operations_share():
    def step(url: str, body: str, state: str, new: str = "", method: str = "GET") -> dict[str, Any]:
        more = {"newScenarioState": new} if new else {}
        return _mapping(
            {"urlPath": url, "method": method}, body,
            scenarioName="todo", requiredScenarioState=state, **more,
        )  # fmt: skip

    mocks = _mocks(_imported(
        step("/list", "empty", "Started"), step("/add", "ok", "Started", "one", "POST"),
        step("/list", "one", "one"),
    ))  # fmt: skip

    assert await _says(mocks, "/list", method="GET") == "empty"
    assert await _says(mocks, "/add") == "ok"
    assert await _says(mocks, "/list", method="GET") == "one"
    assert await _says(mocks, "/add") == "mock_no_match"


async def test_the_order_of_mappings_is_that_of_their_priority():
    found = _imported(
        _mapping({"headers": {"x": {"contains": "a"}}}, "low", priority=9),
        _mapping({"headers": {"x": {"contains": "b"}}}, "high", priority=1),
        _mapping(
            {"headers": {"y": {"equalTo": "1"}, "x": {"contains": "c"}}}, "narrow", priority=9
        ),
    )

    assert await _says(_mocks(found), "/orders", headers={"x": "ab"}) == "high"
    assert [each for each in found.left_out if "priority of" in each]


async def test_a_mapping_without_conditions_that_proxies_is_a_fallback():
    found = _imported(
        {"request": {"urlPath": "/a", "method": "ANY"}, "response": {"proxyBaseUrl": "http://b"}}
    )

    mocks = mocks_of({path: content.decode() for path, content in found.files.items()})
    assert len(found.files) == 10
    assert "stubs.json: mappings[0]: the method ANY is GET, POST, PUT, PATCH, DELETE" in (
        found.left_out
    )
    found_route = mocks.surface.route("PUT", "/a")
    assert found_route is not None
    fallback = found_route[0].operation.mock.fallback
    assert fallback is not None
    assert (fallback.mode, fallback.proxy_url) == ("proxy", "http://b/")


def test_a_folder_of_wiremock_is_one_surface():
    files = {
        "mappings/a.json": json.dumps(_mapping({"urlPath": "/a"})).encode(),
        "mappings/deep/b.json": json.dumps({"mappings": [_mapping({"urlPath": "/b"})]}).encode(),
        "mappings/broken.json": b'{"request": ',
        "mappings/other.json": b"{}",
        "__files/c.json": b"{}",
    }
    found = convert_folder("My Stubs", files)

    assert found.surfaces == {"wiremock": 2}
    assert [each for each in found.left_out if "broken.json:1" in each]
    assert found.left_out[f"mappings/other.json: {NEITHER}"] == 1
    with pytest.raises(Unreadable, match="mappings"):
        convert_folder("x", {"a.txt": b""})


@pytest.mark.parametrize("bad", ["\\u0000", "\\ud800"])
def test_a_string_that_no_file_can_hold_leaves_out_its_mapping(bad):
    odd = json.dumps(_mapping({"urlPath": "/odd"}, body="BAD")).replace("BAD", bad)
    deep = json.dumps(_mapping({"urlPath": "/deep"}, body="[" * 900 + "]" * 900))
    content = f'{{"mappings": [{odd}, {deep}]}}'.encode()
    found = convert_file("a.json", content, {"__files/x": b"\0"}.get)

    assert found.examples == 1
    (said,) = found.left_out
    assert said.startswith("a.json: mappings[0]: left out: a string holds NUL or half")


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["$.a", "/a/{b}", "{{x}}", "("]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["method", "url", "urlPathPattern", "headers", "bodyPatterns", "equalTo",
                         "matches", "equalToJson", "matchesJsonPath", "expression", "or", "not",
                         "and", "status", "jsonBody", "transformers", "body", "bodyFileName"]),
        inner, max_size=4),
    max_leaves=15,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_ANY, _ANY)
def test_no_mapping_raises(request, response):
    try:
        found = _imported({"request": request, "response": response, "scenarioName": "s"})
    except Unreadable:
        return
    assert found.files


PASTRY = """\
apiVersion: mocks.microcks.io/v1alpha1
kind: APIExamples
metadata: {name: API Pastry, version: 2.0.0}
operations:
  GET /pastry/{name}:
    Eclair:
      request: {parameters: {name: Eclair, page: 1}, headers: {Accept: application/json}}
      response:
        mediaType: application/json
        headers: {x-from: "{{ request.params[name] }}", x-list: [a, b]}
        body: |-
          {"name": "Eclair", "asked": "{{request.headers[X-A]}}", "none": "{{ guid() > put(x) }}"}
    Tart:
      request: {parameters: {name: Tart}}
      response: {status: "404", mediaType: text/plain, body: none}
  POST /order:
    big: {request: {body: {n: 10}}, response: {code: 201, body: "{{ request.body/n }} big"}}
    small: {request: {body: '{"n": 1}'}, response: {status: 201, body: small}}
    odd: {request: {}}
  SayHello:
    hello: {request: {body: {}}, response: {body: {}}}
"""
METADATA = """\
apiVersion: mocks.microcks.io/v1alpha1
kind: APIMetadata
metadata: {name: API Pastry, version: 2.0.0}
operations:
  GET /pastry/{name}:
    delay: 30
    parameterConstraints:
      - {name: X-T, in: header, required: false, recopy: true, mustMatchRegexp: "^[a-z]+$"}
    dispatcher: FALLBACK
    dispatcherRules: '{"dispatcher": "URI_PARTS", "dispatcherRules": "name", "fallback": "Tart"}'
  POST /order:
    dispatcher: JSON_BODY
    dispatcherRules: |-
      {"exp": "/n", "operator": "equals", "cases": {"10": "big", "default": "small"}}
  PUT /gone: {dispatcher: SCRIPT, dispatcherRules: "return 1", labels: {a: b}}
"""


async def test_examples_of_microcks_answer_as_they_did():
    found = convert_file("pastry.yaml", PASTRY.encode(), lambda _: None)

    assert (found.kind, found.surfaces, found.warnings) == ("Microcks", {"api-pastry": 2}, ())
    assert sorted(found.left_out) == [
        "pastry.yaml: GET /pastry/{name}: the template {{ guid() > put(x) }} has no equal and "
        "stays as text",
        "pastry.yaml: POST /order: odd: left out: it has no response",
        "pastry.yaml: SayHello: left out: only operations of HTTP have examples",
    ]
    mocks = _mocks(found)
    answer = await _answer(mocks, "/pastry/Eclair?page=1", method="GET", headers={"x-a": "me"})
    assert dict(answer.headers) == {"x-from": "Eclair", "x-list": "a, b"}
    assert json.loads(answer.body) == {
        "name": "Eclair", "asked": "me", "none": "{{ guid() > put(x) }}",
    }  # fmt: skip
    answer = await _answer(mocks, "/pastry/Tart", method="GET")
    assert (answer.status, answer.media_type, answer.body) == (404, "text/plain", b"none")
    assert await _says(mocks, "/order", body=b'{"n": 10}') == "10 big"
    assert await _says(mocks, "/order", body=b'{"n": 1}') == "small"


async def test_metadata_of_microcks_say_how_its_examples_are_chosen():
    files = {"pastry.yaml": PASTRY.encode(), "pastry.meta.yml": METADATA.encode(), "README.md": b""}
    found = convert_folder("pastry", files, surface="p")

    assert "PUT /gone: its metadata are left out: they need the APIExamples beside them" in (
        found.left_out
    )
    assert "pastry.meta.yml: PUT /gone: labels is left out" in found.left_out
    mocks = _mocks(found)
    answer = await _answer(mocks, "/pastry/Cake", method="GET", headers={"x-t": "abc"})
    assert (answer.body, answer.fallback) == (b"none", "example")
    refused = await _answer(mocks, "/pastry/Tart", method="GET", headers={"x-t": "7"})
    assert refused.error_code == "mock_constraint_failed"
    answer = await _answer(mocks, "/pastry/Tart", method="GET")
    assert answer.delay_ms == 30
    order, _ = mocks.surface.route("POST", "/order") or (None, None)
    assert order is not None
    assert order.operation.mock.dispatcher_rules == (
        '{"10": "big"}.get(str((request.body or {}).get("n")), "small")'
    )


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["GET /a/{b}", "POST /x", "Say"]), _ANY), _ANY)
def test_no_document_of_microcks_raises(operations, rules):
    def document(kind: str, operations: Any) -> bytes:
        head = {"apiVersion": "mocks.microcks.io/v1alpha1", "kind": kind}
        return json.dumps({**head, "metadata": {"name": "a"}, "operations": operations}).encode()

    examples = {name: {"x": {"request": rules, "response": each}, "y": each}
                for name, each in operations.items()}  # fmt: skip
    metadata = {name: {"dispatcher": "FALLBACK", "dispatcherRules": rules, "delay": rules}
                for name in operations}  # fmt: skip
    files = {
        "a.json": document("APIExamples", examples),
        "b.json": document("APIMetadata", metadata),
    }
    try:
        convert_folder("a", files)
    except Unreadable:
        return
