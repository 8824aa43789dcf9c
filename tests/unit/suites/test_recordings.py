"""HAR, Postman collections and recorded calls as mocks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readers import Unreadable
from surfaces import examples_of, surfaces_of
from surfaces.imports import Imported, convert_file
from surfaces.model import Exchange
from surfaces.recordings import RecordedCall, mock_files, without_secrets
from surfaces.recordings.routes import guess_template
from tests.support.mocks import mocks_of

JSON = (("Content-Type", "application/json"),)


def _call(method: str, path: str, status: int = 200, body: Any = None, **more: Any) -> RecordedCall:
    text = "" if body is None else json.dumps(body)
    return RecordedCall(
        method=method, path=path, status=status, response_headers=JSON, response_body=text, **more
    )


def _exchanges(files: dict[str, str]) -> dict[str, list[Exchange]]:
    content = {path: text.encode() for path, text in files.items()}
    surfaces, warnings = surfaces_of(content, suite_id="s", base_url="")
    assert [each.detail for each in warnings] == []
    return {
        f"{operation.method} {operation.path}": list(examples_of(operation))
        for surface in surfaces
        for operation in surface.operations
    }


def _har(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"log": {"version": "1.2", "entries": entries}}).encode()


def _entry(url: str, method: str = "GET", status: int = 200, text: str = "{}", **more: Any) -> Any:
    kind = more.pop("kind", "application/json")
    return {
        "request": {"method": method, "url": url, "headers": [], **more.pop("request", {})},
        "response": {"status": status, "headers": more.pop("headers", []),
                     "content": {"mimeType": kind, "text": text, **more}},
    }  # fmt: skip


def _imported(name: str, content: bytes, **options: Any) -> Imported:
    return convert_file(name, content, lambda _: None, **options)


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/orders/42/items/7", "/orders/{orderId}/items/{itemId}"),
        ("/v1/users/me", "/v1/users/me"),
        ("/a/123e4567-e89b-12d3-a456-426614174000", "/a/{aId}"),
        ("/companies/0123456789abcdef0123", "/companies/{companyId}"),
        ("/customers/cus_NffrFeUfNV2Hib", "/customers/{customerId}"),
        ("/1/2", "/{id}/{id2}"),
        ("/", "/"),
        ("/files/report-2024", "/files/report-2024"),
        ("/x/{y}", "/x/%7By%7D"),
        ("/address/5", "/address/{addressId}"),
    ],
)
def test_only_certain_identifiers_become_parameters(path, template):
    assert guess_template(path)[0] == template


async def test_recorded_calls_are_answered_as_they_were():
    calls = [
        _call("GET", "/orders/42", 200, {"id": 42, "odd": ["0o7", "1e3", "yes", "{{x}}", "~", ""]}),
        _call("GET", "/orders/43", 404, {"error": "none"}),
        _call("GET", "/orders", 200, [1], query=(("q", "a b"),)),
        _call("GET", "/orders", 200, [2], query=(("q", "c"),)),
        _call("POST", "/orders", 201, {"n": 1}, request_body='{"k": "x", "same": 1}'),
        _call("POST", "/orders", 422, {"n": 2}, request_body='{"k": "y", "same": 1}'),
        _call("POST", "/orders", 500, {"n": 3}, request_body='{"k": "y", "same": 1}'),
    ]
    made = mock_files([*calls, calls[0]], "shop")
    assert (made.operations, made.examples) == (3, 6)
    assert made.left_out == {"another answer to an equal call": 1, "the same call again": 1}

    mocks = mocks_of(made.files)
    assert mocks.warnings == []
    for call in calls[:4]:
        target = call.path + "".join(f"?{name}={value}" for name, value in call.query)
        operation, request = mocks.request(target.replace(" ", "%20"))
        answer = await mocks.engine.answer(operation, request)
        assert answer.status == call.status
        assert json.loads(answer.body) == json.loads(call.response_body)


def test_an_example_asks_for_what_tells_it_from_others():
    calls = [
        _call("POST", "/o", 201, {}, request_body='{"k": "x", "same": 1, "deep": {"a": 1}}'),
        _call("POST", "/o", 202, {}, request_body='{"k": "y", "same": 1, "deep": {"a": 2}}'),
        _call("POST", "/p", 200, {}, request_body='{"k": "x"}'),
    ]
    found = _exchanges(mock_files(calls, "s").files)
    told = [
        [(each.source, each.param, each.value) for each in one.when] for one in found["POST /o"]
    ]
    assert told == [
        [("body", "k", "x"), ("body", "deep.a", "1")],
        [("body", "k", "y"), ("body", "deep.a", "2")],
    ]
    assert found["POST /p"][0].when == ()


SECRETS = (
    "Sup3rS3cretToken", "c00kieValue1", "hunter2hunter2", "queryKey99", "sk_live_abcdefghijkl",
    "ab1", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
)  # fmt: skip


def test_json_that_was_recorded_as_a_form_tells_examples_apart():
    form = (("Content-Type", "application/x-www-form-urlencoded"),)
    calls = [
        _call("POST", "/pay", 200, {"n": number}, request_headers=form, request_body=body)
        for number, body in enumerate(('{"kind": "a"}', '{"kind": "b"}', "kind=c"))
    ]
    (examples,) = _exchanges(mock_files(calls, "shop").files).values()
    assert [[(each.param, each.value) for each in example.when] for example in examples] == [
        [("kind", "a")], [("kind", "b")], [("kind", "c")],
    ]  # fmt: skip


def test_no_credential_is_written():
    token, cookie, password, key, live, short, jwt = SECRETS
    calls = [
        _call(
            "POST",
            f"/sessions/{token}",
            200,
            {"echo": f"was {token}", "password": password, "pin": 1, "access_token": short,
             "jwt": jwt, "note": f"pay with {live}", "kept": "plain",
             "cookie-echo": cookie},
            query=(("api_key", key), ("page", "2"), ("echo", key)),
            request_headers=(("Authorization", f"Bearer {token}"), ("Cookie", f"sid={cookie}; a=b"),
                             ("Accept", "*/*")),
            request_body=f'{{"user": "u", "password": "{password}"}}',
        ),
        _call("POST", "/login", 200, {}, request_body=f"user=u&password={short}"),
    ]  # fmt: skip
    calls[0] = RecordedCall(**{
        **{name: getattr(calls[0], name) for name in RecordedCall.__slots__},
        "response_headers": (*JSON, ("Set-Cookie", f"sid={cookie}; Path=/"), ("X-Api-Key", key)),
    })  # fmt: skip
    made = mock_files(calls, "shop")
    text = "\n".join([*made.files, *made.files.values()])
    assert [each for each in SECRETS if each in text] == []
    assert "plain" in text
    assert "page" in text
    _exchanges(made.files)


def test_a_har_file_keeps_calls_of_apis():
    content = _har(
        _entry("https://api.shop.test/v1/a?x=1", text='{"a": 1}'),
        _entry("https://api.shop.test/logo.png", kind="image/png"),
        _entry("https://api.shop.test/", kind="text/html", text="<html>"),
        _entry("https://api.shop.test/v1/a", method="OPTIONS"),
        _entry("https://api.shop.test/v1/a", status=0),
        _entry("https://api.shop.test/v1/b", text="eyJiIjogMn0=", encoding="base64"),
        _entry("https://api.shop.test/v1/c", text="/////w==", encoding="base64"),
        _entry("https://pay.test/v1/a", text="ok", kind="text/plain"),
        {"no": "entry"},
    )
    found = _imported("x.har", content)
    assert (found.kind, found.surfaces) == ("HAR", {"api-shop-test": 2, "pay-test": 1})
    assert sum(found.left_out.values()) == 6
    assert _imported("x.har", content, surface="one").surfaces == {"one": 2}


COLLECTION: dict[str, Any] = {
    "info": {"name": "Pet Shop", "schema": "https://schema.getpostman.com/json/collection/v2.1.0/"},
    "variable": [{"key": "base", "value": "https://pets.test/api"}, {"key": "tag", "value": "t1"}],
    "item": [
        {"name": "folder", "item": [{
            "name": "a pet",
            "request": {"method": "GET", "url": "{{base}}/pets/:id"},
            "response": [
                {"name": "A cat", "code": 200, "body": '{"name": "cat {{x}}"}',
                 "header": [{"key": "Content-Type", "value": "application/json"}],
                 "originalRequest": {"method": "GET", "url": {
                     "raw": "{{base}}/pets/:id?tag={{tag}}&z={{unknown}}",
                     "path": ["pets", ":id"],
                     "query": [{"key": "tag", "value": "{{tag}}"}, {"key": "z", "value": "{{u}}"},
                               {"key": "off", "value": "1", "disabled": True}],
                     "variable": [{"key": "id", "value": "7"}]}}},
                {"name": "Gone", "code": 404, "body": "gone",
                 "originalRequest": {"method": "GET", "url": "{{base}}/pets/{{petId}}"}},
            ],
        }]},
        {"name": "unsaved", "request": {"method": "GET", "url": "{{base}}/x"}},
    ],
}  # fmt: skip


def test_saved_responses_of_a_postman_collection_are_examples():
    found = _imported("c.json", json.dumps(COLLECTION).encode())
    assert (found.kind, found.surfaces) == ("Postman", {"pet-shop": 2})
    assert found.left_out == {"a request without a saved response": 1}
    made = _exchanges({path: text.decode() for path, text in found.files.items()})
    (cat,) = made["GET /pets/{id}"]
    assert cat.name == "A cat"
    assert [(each.source, each.param, each.value) for each in cat.when] == [
        ("path", "id", "7"),
        ("query", "tag", "t1"),
    ]
    assert json.loads(cat.response.body or "") == {"name": "cat {{'{{'}}x}}"}
    assert [each.status for each in made["GET /api/pets/{petId}"]] == ["404"]


BAD = ("a\\u0000b", "a\\ud800b")


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_string_of_a_har_file_leaves_out_its_entry_and_names_it(bad):
    entries = [
        _entry("https://shop.test/a", text='{"a": 1}'),
        _entry("https://shop.test/b?key=hunter2", text="BAD"),
        _entry("https://shop.test/logo.png", kind="image/png", text="BAD"),
        _entry("https://shop.test/BAD"),
        _entry("https://shop.test/c", comment="BAD"),
        _entry("https://shop.test/d", request={"headers": [{"name": "x-a", "value": "BAD"}]}),
    ]
    found = _imported("x.har", _har(*entries).replace(b"BAD", bad.encode()))

    reason = "a string holds NUL or half of a surrogate pair"
    assert dict(found.left_out) == {
        f"GET shop.test/b: {reason}": 1,
        "a page, a picture, a script or a CORS preflight": 1,
        f"GET shop.test/a?b: {reason}": 1,
        f"GET shop.test/d: {reason}": 1,
    }
    made = _exchanges({path: text.decode() for path, text in found.files.items()})
    assert list(made) == ["GET /a", "GET /c"]


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_string_of_a_collection_leaves_out_its_response(bad):
    text = json.dumps(COLLECTION).replace('"gone"', f'"{bad}"').replace("Pet Shop", f"Pets {bad}")
    found = _imported("c.json", text.encode())
    assert found.left_out["GET /api/pets/{petId}: a string holds NUL or half of a surrogate pair"]
    assert found.examples == 1


def test_many_bad_strings_are_counted_and_not_all_named():
    content = _har(
        _entry("https://shop.test/a"),
        *(_entry(f"https://shop.test/a{number}", text="BAD") for number in range(50)),
    )
    found = _imported("x.har", content.replace(b"BAD", b"\\u0000"))
    assert len(found.left_out) == 21
    assert max(found.left_out.values()) == 30


def test_a_bad_string_of_a_contract_still_refuses_it():
    document = '{"openapi": "3.0.0", "paths": {"/a": {"get": {"summary": "\\u0000"}}}}'
    with pytest.raises(Unreadable, match="surrogate"):
        _imported("x.json", document.encode())


def test_a_collection_in_the_envelope_of_postmans_api_is_read():
    found = _imported("c.json", json.dumps({"collection": COLLECTION}).encode())
    assert (found.kind, found.surfaces) == ("Postman", {"pet-shop": 2})
    for inner in ("{}", json.dumps([COLLECTION]), '{"item": []}'):
        with pytest.raises(Unreadable, match="neither"):
            _imported("c.json", f'{{"collection": {inner}}}'.encode())


COLLECTION_V1: dict[str, Any] = {
    "id": "1", "name": "Old Shop", "order": ["a"], "folders": [], "variables": [
        {"key": "base", "value": "https://shop.test"}],
    "requests": [
        {
            "id": "a", "name": "an order", "method": "GET", "url": "{{base}}/orders/:id?full=1",
            "pathVariables": {"id": "7"}, "headers": "Accept: application/json\nX-A: b: c\n",
            "responses": [
                {"name": "Found", "responseCode": {"code": 200, "name": "OK"},
                 "text": '{"id": 7}', "headers": [
                     {"key": "Content-Type", "value": "application/json"}]},
                {"name": "None", "responseCode": {"code": 404}, "text": "gone", "request": {
                    "method": "GET", "url": "{{base}}/orders/8"}},
            ],
        },
        {"id": "b", "name": "add", "method": "POST", "url": "{{base}}/orders", "dataMode": "raw",
         "rawModeData": '{"n": 1}', "responses": [
             {"name": "Made", "responseCode": {"code": 201}, "text": "", "headers": None}]},
        {"id": "c", "name": "form", "method": "POST", "url": "{{base}}/form",
         "dataMode": "urlencoded", "data": [{"key": "a", "value": "1"}], "responses": [
             {"name": "Sent", "responseCode": {"code": 204}}]},
        {"id": "d", "name": "unsaved", "method": "GET", "url": "{{base}}/none"},
        7,
    ],
}  # fmt: skip


def test_a_collection_of_format_1_is_read():
    found = _imported("c.json", json.dumps(COLLECTION_V1).encode())

    assert (found.kind, list(found.surfaces)) == ("Postman", ["old-shop"])
    assert found.left_out == {"a request without a saved response": 2}
    made = _exchanges({path: text.decode() for path, text in found.files.items()})
    (order,) = made["GET /orders/{id}"]
    assert (order.name, order.status, order.media_type) == ("Found", "200", "application/json")
    assert [(each.source, each.param, each.value) for each in order.when] == [
        ("path", "id", "7"), ("query", "full", "1"),
    ]  # fmt: skip
    assert [each.status for each in made["GET /orders/8"]] == ["404"]
    assert json.loads(made["POST /orders"][0].request.body or "") == {"n": 1}
    assert made["POST /form"][0].request.body == "a=1"


@pytest.mark.parametrize(
    ("behind", "said"),
    [
        ("\0\0\0\n", "NUL bytes behind the document, from line 1 column "),
        ('\n{"log": 1}', "text that is not read behind the document, from line 2 column 1"),
        (" }", "text that is not read behind the document, from line 1 column "),
        ("\n\n \t", ""),
    ],
)
def test_what_follows_a_document_is_said(behind, said):
    found = _imported("x.har", _har(_entry("https://shop.test/a")) + behind.encode())

    assert found.examples == 1
    assert [each for each in found.left_out if each.startswith(said)] == list(found.left_out)
    assert bool(found.left_out) == bool(said)


def test_what_follows_a_contract_refuses_it():
    document = b'{"openapi": "3.0.0", "paths": {"/a": {"get": {}}}} {}'
    with pytest.raises(Unreadable, match="the document is not alone"):
        _imported("x.json", document)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({**COLLECTION, "item": []}, "that can be a mock"),
        ({"collection": {**COLLECTION, "item": []}}, "that can be a mock"),
        ({**COLLECTION, "item": COLLECTION["item"][1:]},
         r"; left out: a request without a saved response \(1 times\)"),
        ({"log": {"entries": []}}, "that can be a mock"),
        ({"log": {"entries": [_entry("https://a.test/b", kind="font/x")]}}, "; left out: a page"),
    ],
)  # fmt: skip
def test_a_recording_without_anything_to_answer_is_refused_and_says_so(document, says):
    with pytest.raises(Unreadable, match=f"nothing was found in it.*{says}"):
        _imported("c.json", json.dumps(document).encode())


def test_a_contract_brings_the_files_that_it_refers_to():
    contract = """openapi: 3.0.0
paths:
  /a: {get: {responses: {'200': {$ref: 'parts/r.yaml#/ok'}}}}
  /b: {get: {responses: {'200': {$ref: '../outside.yaml'}, '404': {$ref: 'gone.yaml'}}}}
"""
    asked: list[str] = []

    def beside(path: str) -> bytes | None:
        asked.append(path)
        return b"ok: {description: ''}" if path == "parts/r.yaml" else None

    found = convert_file("My Shop.yaml", contract.encode(), beside)
    assert list(found.files) == ["api/My-Shop.yaml", "api/parts/r.yaml"]
    assert asked == ["parts/r.yaml", "gone.yaml"]
    assert found.left_out == {"gone.yaml, which is not there": 1}


def test_a_document_of_swagger_2_is_a_contract():
    contract = "swagger: '2.0'\npaths: {/a: {get: {responses: {200: {$ref: 'ok.yaml'}}}}}"
    found = convert_file("shop.yaml", contract.encode(), lambda _: b"examples: {a/b: 'x'}")

    assert list(found.files) == ["api/shop.yaml", "api/ok.yaml"]
    assert (found.kind, found.surfaces, found.warnings) == ("contract", {"shop": 1}, ())


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"log": 1}', b"{'a': 1}",
        b'{"swagger": "2.0", "paths": {}}', b"openapi: 3.0.0", b"openapi: 3.0.0\npaths: {}\0",
        b'{"a": 1, "a": 2}',
    ],
)  # fmt: skip
def test_other_files_are_refused(content):
    with pytest.raises(Unreadable):
        _imported("x.json", content)


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from("""item request response url raw path query variable key value code body
            name header originalRequest method mode urlencoded log entries headers content text
            mimeType encoding status postData params""".split()), inner, max_size=5),  # noqa: SIM905
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.lists(_ANY, max_size=4), st.booleans())
def test_strange_recordings_are_read_or_left_out(parts, is_har):
    document = (
        {"log": {"entries": parts}}
        if is_har
        else {"info": {"_postman_id": "x", "name": "n"}, "item": parts}
    )
    try:
        found = _imported("x.json", json.dumps(document).encode())
    except Unreadable:
        return
    _exchanges({path: text.decode() for path, text in found.files.items()})


_TEXT = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
_BODIES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _TEXT
    | st.sampled_from(["y", "0x1", "1_0", "1:30", "2024-01-01", "=", "<<", "é", "- a", "a: b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(_TEXT.filter(lambda key: "{" not in key), _BODIES, max_size=3))
async def test_a_written_body_is_read_as_it_was(body):
    text = json.dumps(body, ensure_ascii=False)
    call = RecordedCall(
        method="GET", path="/a", status=200, response_headers=JSON, response_body=text
    )
    (masked,) = without_secrets([call])
    answer = await mocks_of(mock_files([call], "s").files).call("/a")
    assert json.loads(answer.body) == json.loads(masked.response_body)
