"""What callers want by `Accept` and `Prefer`, and what they get (reference: control-plane 18.2)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from mocks.model.calls import CallOutcome
from mocks.negotiation.accept import best_media_type
from mocks.negotiation.charsets import charset_of
from mocks.negotiation.header_lists import MAX_ENTRIES, split_list
from mocks.negotiation.prefer import read_preferences
from tests.support.mocks import Mocks, mock_of, mocks_of

JSON, XML, TEXT, HTML = "application/json", "application/xml", "text/plain", "text/html"


@pytest.mark.parametrize(
    ("accept", "offered", "chosen"),
    [
        ("", (JSON, XML), JSON),
        ("*/*", (JSON, XML), JSON),
        ("*", (XML, JSON), XML),
        (XML, (JSON, XML), XML),
        (f"{JSON}, {XML}", (XML, JSON), JSON),
        (f"{JSON};q=0.5, {XML}", (JSON, XML), XML),
        (f"{JSON};q=0.5, */*;q=0.1", (XML, JSON), JSON),
        # RFC 9110, 12.5.1
        ("audio/*; q=0.2, audio/basic", ("audio/mpeg", "audio/basic"), "audio/basic"),
        (f"{TEXT}; q=0.5, {HTML}, text/x-dvi; q=0.8, text/x-c", (TEXT, HTML), HTML),
        ("text/*, text/plain, text/plain;format=flowed, */*", (JSON, TEXT), TEXT),
        ("text/*;q=0.3, text/plain;q=0.7, text/plain;format=flowed, text/plain;"
         "format=fixed;q=0.4, */*;q=0.5", ("text/plain;format=flowed", TEXT),
         "text/plain;format=flowed"),
        ("text/*;q=0.3, text/plain;q=0.7, */*;q=0.5", (HTML, "image/jpeg"), "image/jpeg"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", (JSON, XML), XML),
        # nothing
        (HTML, (JSON, XML), None),
        (f"{JSON};q=0", (JSON,), None),
        (f"{JSON};q=0, */*", (JSON, XML), XML),
        ("*/*;q=0", (JSON,), None),
        (JSON, ("application/hal+json",), None),
        # parameters
        (f"{JSON}; charset=utf-8", (JSON,), JSON),
        (JSON, ("application/json; charset=utf-8",), "application/json; charset=utf-8"),
        (f"{JSON};odata.metadata=minimal", (JSON,), JSON),
        (f'{XML};q="0.9", {JSON}; q=0.4', (JSON, XML), XML),
        ('application/json;profile="a,b;c"', (XML, JSON), JSON),
        ("Application/JSON", (XML, JSON), JSON),
        # ranges of a contract
        ("image/webp", (JSON, "image/*"), "image/*"),
        ("text/csv", ("*/*",), "*/*"),
        # garbage leaves the choice, or what is none is left out
        ("garbage", (JSON,), JSON),
        (",,;;q=1,/,a/,/b,*/json", (JSON,), JSON),
        (f"{XML};q=nan, {JSON};q=2", (XML, JSON), JSON),
        (f"{XML};q=-1, {JSON};q=oops", (XML, JSON), None),
        ('"', (JSON,), JSON),
    ],
)  # fmt: skip
def test_the_media_type_is_the_one_that_the_caller_likes_best(accept, offered, chosen):
    assert best_media_type(accept, offered) == chosen


@pytest.mark.parametrize(
    "accept",
    [
        "text/x," * 10_000 + JSON,
        'a/b;x="' + '\\"' * 50_000,
        '"' * 60_000,
        "a/b" + ";x=1" * 20_000,
        "\\" * 60_000,
    ],
)
def test_a_long_header_is_read_in_no_time(accept):
    started = time.perf_counter()
    best_media_type(accept, (JSON,))
    read_preferences(accept, {})
    assert time.perf_counter() - started < 0.5
    assert len(split_list(accept, ",")) <= MAX_ENTRIES


@pytest.mark.parametrize(
    ("header", "query", "wanted"),
    [
        ("code=404", {}, ("404", "", False)),
        ("code=404, example=x, dynamic=true", {}, ("404", "x", True)),
        ("code=404; example=x;dynamic", {}, ("404", "x", True)),
        ('Code = "404", EXAMPLE="a, \\"b\\""', {}, ("404", 'a, "b"', False)),
        ("example=a, example=b", {}, ("", "a", False)),
        ("dynamic=false, code=200", {}, ("200", "", False)),
        ("respond-async, wait=10, code=200", {}, ("200", "", False)),
        ("", {"__code": "404", "__example": "x", "__dynamic": "true"}, ("404", "x", True)),
        ("code=200", {"__code": "404", "__example": "x"}, ("200", "x", False)),
        ("return=minimal", {"code": "404"}, None),
        ("dynamic=false", {}, None),
        ("", {}, None),
    ],
)
def test_preferences_come_from_the_header_or_the_query(header, query, wanted):
    found = read_preferences(header, query)
    assert (found and (found.code, found.example, found.dynamic)) == wanted


def test_only_preferences_of_the_header_are_said_to_be_applied():
    found = read_preferences('example="a b", code=404', {"__dynamic": "true"})
    assert found is not None
    assert found.applied_text(is_fresh=True) == 'code=404, example="a b"'


@pytest.mark.parametrize(
    ("media_type", "charset"),
    [
        ("text/plain; charset=ISO-8859-1", "iso8859-1"),
        ('text/plain;charset="windows-1252"', "cp1252"),
        ("text/plain; charset=utf-16le", "utf-16-le"),
        ("text/plain; charset=utf-8", ""),
        ("text/plain", ""),
        ("text/plain; charset=klingon", ""),
        ("text/plain; charset=base64", ""),
        ("text/plain; charset=idna", ""),
        ("text/plain; charset=zlib_codec", ""),
    ],
)
def test_a_charset_counts_that_encodes_texts(media_type, charset):
    assert charset_of(media_type) == charset


PETS: dict[str, Any] = {
    "200": {
        "content": {
            XML: {"example": "<pet/>"},
            JSON: {
                "schema": {"type": "object", "required": ["id"],
                           "properties": {"id": {"type": "integer"}}},
                "examples": {"cat": {"value": {"id": 7}}, "dog": {"value": {"id": 8}}},
            },
            "text/plain; charset=iso-8859-1": {"example": "Kätzchen"},
        }
    },
    "404": {"content": {"application/problem+json": {"example": {"no": "pet"}}}},
    "4XX": {"content": {JSON: {"example": {"no": "idea"}}}},
    "default": {"content": {JSON: {"example": {"oops": True}}}},
}  # fmt: skip


def pets(responses: Any = None, **mock: str) -> Mocks:
    operation = {"operationId": "getPet", "responses": PETS if responses is None else responses}
    document = {"openapi": "3.1.0", "paths": {"/pets": {"get": operation}}}
    mocks = {f"mock/pets/getPet{'.metadata' * (name == 'spec')}.yaml": text
             for name, text in mock.items()}  # fmt: skip
    return mocks_of({"api/pets.json": json.dumps(document), **mocks})


@pytest.mark.parametrize(
    ("accept", "media_type", "body"),
    [
        ("", JSON, {"id": 7}),
        ("*/*", JSON, {"id": 7}),
        (XML, XML, b"<pet/>"),
        ("text/*", "text/plain; charset=iso-8859-1", "Kätzchen".encode("iso-8859-1")),
        (f"{XML};q=0.1, {JSON}", JSON, {"id": 7}),
    ],
)
async def test_a_contract_answers_in_the_accepted_media_type(accept, media_type, body):
    mocks = pets()
    answer = await mocks.call("/pets", headers={"accept": accept})

    assert (answer.status, answer.media_type) == (200, media_type)
    assert (json.loads(answer.body) if media_type == JSON else answer.body) == body
    assert ("vary", "Accept") in answer.headers
    assert mocks.operation.accepted_static(accept) == answer


async def test_what_a_contract_does_not_offer_is_not_acceptable():
    mocks = pets()
    answer = await mocks.call("/pets", headers={"accept": "image/png"})

    assert (answer.status, answer.error_code) == (406, "not_acceptable")
    assert answer.outcome is CallOutcome.REJECTED
    assert answer.detail == (
        "nothing suits Accept: image/png; there is application/json, application/xml, "
        "text/plain; charset=iso-8859-1"
    )
    assert mocks.operation.accepted_static("image/png") is None
    only = pets({"200": {"content": {JSON: {"example": 1}}}})
    assert (await only.call("/pets", headers={"accept": XML})).status == 406
    bare = pets({"204": {"description": ""}})
    assert (await bare.call("/pets", headers={"accept": XML})).status == 204
    any_type = pets({"200": {"content": {"*/*": {"example": {}}}}})
    assert (await any_type.call("/pets", headers={"accept": XML})).status == 200


async def test_an_error_goes_out_whatever_is_accepted():
    answer = await pets().call("/pets", headers={"accept": JSON, "prefer": "code=404"})
    assert (answer.status, answer.media_type) == (404, "application/problem+json")


@pytest.mark.parametrize(
    ("prefer", "status", "body"),
    [
        ("code=404", 404, {"no": "pet"}),
        ("code=418", 418, {"no": "idea"}),
        ("code=503", 503, {"oops": True}),
        ("code=200", 200, {"id": 7}),
        ("example=dog", 200, {"id": 8}),
        ("code=200, example=dog", 200, {"id": 8}),
        ("return=minimal", 200, {"id": 7}),
    ],
)
async def test_a_caller_asks_for_a_status_or_an_example(prefer, status, body):
    for target, headers in (
        ("/pets", {"prefer": prefer}),
        (f"/pets?__{prefer.replace(', ', '&__')}", {}),
    ):
        answer = await pets().call(target, headers=headers)
        assert (answer.status, json.loads(answer.body)) == (status, body)
        is_applied = bool(headers) and not prefer.startswith("return")
        assert (("preference-applied", prefer) in answer.headers) is is_applied
        assert (("vary", "Prefer") in answer.headers) is is_applied


@pytest.mark.parametrize(
    ("prefer", "detail"),
    [
        ("example=cow", 'there is no example "cow"; there is cat, dog'),
        ("code=404, example=cat", 'there is no example "cat" with code=404; there is example'),
        ("code=abc", "there is no answer with code=abc; there is 200, 404, 4XX, default"),
        ("code=99999999999999999999", "there is no answer with code=99999999999999999999;"),
    ],
)
async def test_what_is_asked_for_and_not_there_is_404_with_what_is(prefer, detail):
    answer = await pets().call("/pets", headers={"prefer": prefer})
    assert (answer.status, answer.error_code) == (404, "mock_no_match")
    assert answer.outcome is CallOutcome.NO_MATCH
    assert answer.detail.startswith(detail)


async def test_an_example_in_one_media_type_is_not_given_in_another():
    headers = {"prefer": "example=dog", "accept": XML}
    assert (await pets().call("/pets", headers=headers)).status == 406


async def test_an_undeclared_status_is_404():
    only = pets({"200": {"description": ""}})
    answer = await only.call("/pets", headers={"prefer": "code=404"})
    assert (answer.status, answer.detail) == (
        404, "there is no answer with code=404; there is 200",
    )  # fmt: skip


async def test_a_dynamic_answer_is_another_one_each_time_and_valid():
    found = [
        json.loads((await mocks.call("/pets", headers={"prefer": "dynamic=true"})).body)
        for mocks in [pets()]
        for _ in range(20)
    ]
    assert len({each["id"] for each in found}) > 3
    assert all(isinstance(each["id"], int) for each in found)


MOCK = """
examples:
  lost: {response: {status: "404", body: {own: 404}}}
  mine: {when: [{from: query, param: a, value: b}], response: {body: {own: 1}}}
"""


async def test_the_examples_of_a_mock_come_before_those_of_its_contract():
    mocks = pets(examples=MOCK)

    async def body(prefer: str) -> Any:
        answer = await mocks.call("/pets", headers={"prefer": prefer})
        return json.loads(answer.body)

    assert await body("example=mine") == {"own": 1}
    assert await body("code=404") == {"own": 404}
    assert await body("code=200") == {"own": 1}
    assert await body("code=503") == {"oops": True}
    assert await body("example=dog") == {"id": 8}
    assert (await body("code=200, dynamic"))["id"] is not None


async def test_an_example_of_the_contract_changes_no_state_of_a_mock():
    spec = "spec: {state: {mutationKeyTemplate: k, transitions: [{set: {a: b}}]}}"
    mocks = pets(examples=MOCK, spec=spec)
    await mocks.call("/pets", headers={"prefer": "code=503"})
    assert mocks.state.fields("k") is None
    await mocks.call("/pets", headers={"prefer": "code=404"})
    assert mocks.state.fields("k") == {"a": "b"}


async def test_a_proxy_gets_what_is_asked_for_and_not_there():
    mocks = mock_of("path: /pay, method: GET, fallback: {mode: proxy, proxyUrl: 'http://x/'}", "")
    answer = await mocks.call("/pay", headers={"prefer": "code=404"})
    assert (answer.status, answer.fallback) == (299, "proxy")


VARIANTS = """
    json: {response: {body: {a: 1}}},
    xml: {response: {mediaType: application/xml, body: <a/>}},
    other: {when: [{from: query, param: q, value: x}], response: {body: q}}
"""


@pytest.mark.parametrize(
    ("accept", "query", "name"),
    [
        ("*/*", "", "json"),
        (XML, "", "xml"),
        (f"{JSON};q=0.5, {XML};q=0.4", "", "json"),
        (XML, "?q=x", "other"),  # alone, and written by hand
    ],
)
async def test_examples_with_equal_conditions_are_one_answer_in_several_types(accept, query, name):
    mocks = mock_of("path: /pay, method: GET", VARIANTS)
    assert mocks.warnings == []
    answer = await mocks.call(f"/pay{query}", headers={"accept": accept})
    assert answer.example == name
    assert (("vary", "Accept") in answer.headers) is (name != "other")


async def test_nothing_acceptable_among_variants_is_406_and_one_alone_is_as_it_is():
    mocks = mock_of("path: /pay, method: GET", VARIANTS)
    assert (await mocks.call("/pay", headers={"accept": HTML})).status == 406
    alone = mock_of("path: /pay, method: GET", "a: {response: {body: {a: 1}}}")
    assert (await alone.call("/pay", headers={"accept": HTML})).status == 200
    assert alone.operation.accepted_static(HTML) is alone.operation.static


def test_the_same_conditions_in_the_same_type_never_answer():
    twice = "a: {response: {body: {}}}, b: {response: {body: []}}"
    mocks = mock_of("path: /pay, method: GET", twice)
    assert mocks.warnings == ['"b" never answers: "a" has the same conditions']


async def test_explain_shows_who_is_asked_for_only():
    found = await pets().explain("/pets")
    assert {each["name"]: each["matched"] for each in found["candidates"]} == {
        "cat": True, "dog": False, "404": False, "400": False, "500": False,
        "example.xml": True, "example.plain": True,
    }  # fmt: skip


PAY = "examples: {a: {response: %s}}"


def _with_body(response: str, **files: str) -> Mocks:
    named = {path.replace("__", "/").replace("_", "."): text for path, text in files.items()}
    spec = {"mock/payments/pay.metadata.yaml": "spec: {path: /pay, method: GET}"}
    return mocks_of({**spec, "mock/payments/pay.yaml": PAY % response, **named})


@pytest.mark.parametrize(
    ("response", "files", "body", "media_type"),
    [
        ("{bodyBase64: /wD+}", {}, b"\xff\0\xfe", "application/octet-stream"),
        ("{bodyBase64: '/wD+', mediaType: image/png}", {}, b"\xff\0\xfe", "image/png"),
        ("{bodyFile: page.html, mediaType: text/html}",
         {"mock__payments__page_html": "<p>{{request.method}}"}, b"<p>GET", "text/html"),
        ("{bodyFile: ../logo.b64, mediaType: image/gif}",
         {"mock__logo_b64": "R0lG\nODlh\n"}, b"GIF89a", "image/gif"),
    ],
)  # fmt: skip
async def test_a_body_is_a_file_or_bytes(response, files, body, media_type):
    mocks = _with_body(response, **files)
    assert mocks.warnings == []
    answer = await mocks.call("/pay")
    assert (answer.body, answer.media_type) == (body, media_type)


@pytest.mark.parametrize(
    ("response", "files", "reason"),
    [
        ("{bodyFile: no.png}", {}, 'bodyFile: "mock/payments/no.png" is not a file of the suite; '
         "binary bodies are in a base64 file that ends in .b64"),
        ("{bodyFile: ../../../etc/passwd}", {},
         'bodyFile: "../etc/passwd" is not a file of the suite; '
         "binary bodies are in a base64 file that ends in .b64"),
        ("{bodyBase64: '***'}", {}, "this is not base64 of at most 2 MiB"),
        ("{body: x, bodyBase64: AAAA}", {}, "use one of body, bodyFile and bodyBase64"),
        ("{bodyFile: x.txt}", {"mock__payments__x_txt": "x" * (2 * 2**20 + 1)},
         "the bodyFile is larger than 2 MiB"),
    ],
)  # fmt: skip
def test_a_body_that_cannot_be_read_leaves_its_example_out(response, files, reason):
    mocks = _with_body(response, **files)
    assert mocks.warnings == [f'the example "a" is left out: {reason}']


async def test_a_text_goes_out_in_the_charset_of_its_media_type():
    mocks = _with_body("{mediaType: text/plain; charset=iso-8859-1, body: 'ä {{request.path.x}}€'}")
    answer = await mocks.call("/pay")
    assert answer.body == b"\xe4 ?"


async def test_explain_shows_bytes_in_base64():
    found = await _with_body("{bodyBase64: /wD+}").explain("/pay")
    assert found["response"]["bodyBase64"] == "/wD+"
    found = await _with_body("{body: x}").explain("/pay")
    assert "bodyBase64" not in found["response"]
