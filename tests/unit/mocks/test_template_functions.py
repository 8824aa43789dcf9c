"""Functions of templates, in both forms of a call, and typed values (control-plane 18.6)."""

from __future__ import annotations

import asyncio
import json
import random
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel import clock
from mocks.model.calls import MockRequest
from mocks.templates.expressions import TemplateInvalid
from mocks.templates.functions import MAX_RESULT, format_time
from mocks.templates.scope import AnswerTooLarge, Names, Scope
from mocks.templates.templates import BodyTemplate, TextTemplate
from surfaces.template_expressions import FAKER, template_problems
from tests.support.mocks import mock_of

NAMES = Names(suite={"id": "shop"}, operation={}, execution={})
BODY = b"""{"a": {"b": 4, "c": [1, 2]}, "items": [{"id": 1}, {"id": 2}], "name": "ada", "ok": true,
 "none": null, "deep": {"x": "{{request.method}}"}}"""
NOW = datetime(2026, 1, 31, 9, 5, 7, 42_000, tzinfo=UTC)
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


@pytest.fixture(autouse=True)
def _frozen(monkeypatch):
    monkeypatch.setattr(clock, "now", lambda: NOW)


def scope(body: bytes = BODY, seed: int = 1, **query: str) -> Scope:
    request = MockRequest(
        "POST", "/x", headers={}, query={"n": "12", "f": "2.50", "t": "two words", **query},
        params={"id": "7"}, raw_body=body,
    )  # fmt: skip
    return Scope(request, {"status": "paid"}, "e", random.Random(seed))


def rendered(text: str, **options: Any) -> str:
    assert list(template_problems(text)) == []
    return TextTemplate(text, NAMES).render(scope(**options))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{{now}}", "2026-01-31T09:05:07.042Z"),
        ("{{now()}}", "2026-01-31T09:05:07.042Z"),
        ("{{now offset='3 days'}}", "2026-02-03T09:05:07.042Z"),
        ("{{now('-1 hours')}}", "2026-01-31T08:05:07.042Z"),
        ("{{now('1 month')}}", "2026-02-28T09:05:07.042Z"),
        ("{{now('-2 years', 'yyyy')}}", "2024"),
        ("{{now offset='3 days' format='yyyy-MM-dd'}}", "2026-02-03"),
        ("{{now format='dd.M.yy'}}", "31.1.26"),
        ("{{now 'YYYY-MM-DD'}}", "2026-01-31"),
        ("{{now(format='epoch')}}", "1769850307042"),
        ("{{now(format='unix')}}", "1769850307"),
        ("{{now('999999999 years')}}", "2026-01-31T09:05:07.042Z"),
        ("{{upper(request.query.t)}}", "TWO WORDS"),
        ("{{upper request.query.t}}", "TWO WORDS"),
        ("{{uppercase(request.query.t)}}", "TWO WORDS"),
        ("{{lower('ABC')}}", "abc"),
        ("{{capitalize(request.body.name)}}", "Ada"),
        ("{{trim('  a ')}}", "a"),
        ("{{upper(trim(' a '))}}", "A"),
        ("{{upper (trim ' a ')}}", "A"),
        ("{{base64(request.body.name)}}", "YWRh"),
        ("{{base64decode('YWRh')}}", "ada"),
        ("{{base64 'YWRh' decode=true}}", "ada"),
        ("{{base64decode('YWR')}}", "ad"),
        ("{{base64decode('!')}}", ""),
        ("{{urlEncode(request.query.t)}}", "two%20words"),
        ("{{jsonPath request.body '$.a.b'}}", "4"),
        ("{{jsonPath(request.body, '$.items[*].id')}}", "[1,2]"),
        ("{{jsonPath(request.rawBody, '$.name')}}", "ada"),
        ("{{jsonPath(request.body, '$.absent')}}", ""),
        ("{{jsonPath(request.body, '$.absent') || 'none'}}", "none"),
        ("{{size(request.body.items)}}", "2"),
        ("{{size request.body.name}}", "3"),
        ("{{size(request.body.absent)}}", "0"),
        ("{{math(request.query.n, '+', 1)}}", "13"),
        ("{{math request.query.n '/' 8}}", "1.5"),
        ("{{math request.query.f '*' 2}}", "5"),
        ("{{math 7 '-' 9}}", "-2"),
        ("{{math 1 '/' 0}}", ""),
        ("{{math request.query.t '+' 1}}", ""),
        ("{{math 7 '^' 9}}", ""),
        ("{{number(request.query.f)}}", "2.5"),
        ("{{number(request.query.t) || 0}}", "0"),
        ("{{request.query.absent || true}}", "true"),
        ("{{boolean(request.body.ok)}}", "true"),
        ("{{string(request.body.a.b)}}", "4"),
        ("{{json(request.body.a)}}", '{"b":4,"c":[1,2]}'),
        ("{{json(request.body.none) || 'x'}}", "x"),
        ("{{pick('a')}}", "a"),
        ("{{randomInt(3, 3)}}", "3"),
        ("{{randomInt lower=4 upper=4}}", "4"),
        ("{{randomInt(min=5, max=5)}}", "5"),
        ("{{request.query.absent || upper('a')}}", "A"),
        ("{{upper(state.status)}} {{upper(suite.id)}}", "PAID SHOP"),
        ("{{json(request.body.deep)}}", '{"x":"{{request.method}}"}'),
    ],
)
def test_a_function_is_called_in_either_form(text, wanted):
    assert rendered(text) == wanted


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("{{uuid}}", UUID),
        ("{{guid()}}", UUID),
        ("{{randomValue type='UUID'}}", UUID),
        ("{{randomValue}}", "[a-z0-9]{36}"),
        ("{{randomValue length=10 type='ALPHANUMERIC'}}", "[a-z0-9]{10}"),
        ("{{randomValue(4, 'NUMERIC')}}", "[0-9]{4}"),
        ("{{randomValue length=6 type='HEXADECIMAL' uppercase=true}}", "[0-9A-F]{6}"),
        ("{{randomValue length=99999999}}", "[a-z0-9]{10000}"),
        ("{{randomInt(1, 6)}}", "[1-6]"),
        ("{{randomInt(6, 1)}}", "[1-6]"),
        ("{{pick('a', 'b', 'c')}}", "[abc]"),
        ("{{pickRandom 'a' 'b'}}", "[ab]"),
        ("{{pick(request.body.a.c)}}", "[12]"),
        ("{{faker.email()}}", "[^@]+@[^@]+"),
        ("{{faker.first_name}} {{faker.lastName}}", r"\w+ [\w' -]+"),
    ],
)
def test_drawn_values_are_of_their_form_and_follow_the_seed(text, pattern):
    made = rendered(text)
    assert re.fullmatch(pattern, made), made
    assert rendered(text, seed=1) == made


def test_every_invented_kind_gives_a_value():
    for kind in FAKER:
        assert rendered(f"{{{{faker.{kind}()}}}}"), kind


@pytest.mark.parametrize(
    ("layout", "wanted"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2026-01-31T09:05:07.042Z"),
        ("EEE, d MMM yyyy h:m a", "Sat, 31 Jan 2026 9:5 AM"),
        ("EEEE MMMM Z", "Saturday January +0000"),
        ("H''m", "9'5"),
    ],
)
def test_times_have_the_letters_of_other_tools(layout, wanted):
    assert format_time(NOW, layout) == wanted


def test_xpath_reads_an_xml_body():
    body = b"<o:order xmlns:o='urn:x' id='7'><o:item>a</o:item><o:item>b</o:item></o:order>"
    assert rendered("{{xPath(request.body, '//order/@id')}}", body=body) == "7"
    assert rendered("{{xPath request.body 'count(//item)'}}", body=body) == "2"
    assert rendered("{{xPath(request.body, '//item')}}", body=body) == '["a","b"]'
    assert rendered("{{xPath(request.body, '//item')}}", body=b"no xml") == ""


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ('{"n": "{{number(request.query.n)}}"}', {"n": 12}),
        ('{"n": "{{request.query.n}}"}', {"n": "12"}),
        ('{"n": "{{string(number(request.query.n))}}"}', {"n": "12"}),
        ('{"n": "x{{number(request.query.n)}}"}', {"n": "x12"}),
        ('{"n": "{{number(request.query.t)}}"}', {"n": None}),
        ('{"n": "{{boolean(request.body.ok)}}"}', {"n": True}),
        ('{"n": "{{json(request.body.items)}}"}', {"n": [{"id": 1}, {"id": 2}]}),
        ('{"n": "{{jsonPath(request.body, \'$.a\')}}"}', {"n": {"b": 4, "c": [1, 2]}}),
        ('{"n": "{{size(request.body.items)}}"}', {"n": 2}),
        ('{"n": "{{number(request.query.t) || \'none\'}}"}', {"n": "none"}),
        ('{"n": "{{number(request.query.t) || 0}}"}', {"n": 0}),
        ('{"n": "{{upper(request.body.name)}}"}', {"n": "ADA"}),
        ('{"n": "{{json(request.body.deep)}}"}', {"n": {"x": "{{request.method}}"}}),
        ('["{{math request.query.n \'*\' 2}}", "a"]', [24, "a"]),
        ('{"{{number(request.query.n)}}" : 1}', {"12": 1}),
    ],
)
def test_the_value_of_a_function_alone_in_its_string_keeps_its_type(body, wanted):
    assert list(template_problems(body)) == []
    assert json.loads(BodyTemplate(body, NAMES).render(scope())) == wanted


@pytest.mark.parametrize("text", ["{{upper(request.rawBody)}}", "{{base64(request.rawBody)}}"])
def test_the_text_of_a_function_is_bounded(text):
    with pytest.raises(AnswerTooLarge):
        rendered(text, body=b"x" * (MAX_RESULT + 1))


async def test_a_counter_counts_for_all_operations_and_never_the_same_twice():
    examples = """a: {response: {headers: {x-n: "{{counter('orders')}}"},
      body: {id: "{{counter('orders')}}", "other": "{{counter 'o'}}"}}}"""
    mocks = mock_of("path: /pay, method: GET", examples)
    answers = await asyncio.gather(*(mocks.call("/pay") for _ in range(5)))
    numbers = sorted(json.loads(each.body)["id"] for each in answers)
    assert numbers == [1, 2, 3, 4, 5]
    assert [dict(each.headers)["x-n"] for each in answers] == [
        str(json.loads(each.body)["id"]) for each in answers
    ]
    assert (await mocks.explain("/pay"))["response"]["headers"]["x-n"] == ["6"]
    counters = await mocks.state.counters("shop")
    assert sorted((each.operation_id, each.value) for each in counters) == [
        ("counter:o", 5),
        ("counter:orders", 5),
    ]


async def test_a_counter_of_a_transition_and_of_a_schema_counts_too():
    spec = """path: /pay, method: POST, state: {lookupKeyTemplate: k,
      transitions: [{set: {n: "{{counter('n')}}"}}]}"""
    schema = """a: {responseSchema: {body: {type: object, properties:
      {id: {type: integer, template: "{{counter('n')}}"}}}}}"""
    mocks = mock_of(spec, schema)
    bodies = [json.loads((await mocks.call("/pay")).body) for _ in range(2)]
    assert bodies == [{"id": 1}, {"id": 2}]
    assert mocks.state.fields("k") == {"n": "2"}


WORDS = st.sampled_from(
    ["now", "uuid", "upper", "pick", "faker.name", "(", ")", ",", " ", "'a'", '"b"', "||", "=",
     "request.body", "request.query.n", "offset=", "#if", "1", "-2.5", "true", ".", "[0]", "x",
     "jsonPath", "'$.a'", "math", "'+'", "counter", "json", "{", "}", "\n", "ü"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(words=st.lists(WORDS, max_size=10), is_json=st.booleans())
def test_any_text_is_a_template_and_renders(words, is_json):
    text = f"a {{{{{''.join(words)}}}}} b"
    list(template_problems(text))
    source = json.dumps({"a": text, "b": text[2:-2]}) if is_json else text
    try:
        made = BodyTemplate(source, NAMES).render(scope())
    except TemplateInvalid:
        return
    if is_json:
        json.loads(made)
