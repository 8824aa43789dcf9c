"""Templates (reference: control-plane 18.6)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mocks.model.calls import MockRequest
from mocks.model.paths import MISSING, value_at
from mocks.templates.expressions import TemplateInvalid
from mocks.templates.scope import AnswerTooLarge, Names, Scope
from mocks.templates.templates import MAX_EXPRESSIONS, BodyTemplate, TextTemplate
from surfaces.template_expressions import template_problems
from surfaces.template_paths import parse_path

NAMES = Names(
    suite={
        "id": "shop", "title": "Shop", "repository": "core/shop", "surfaceId": "pay",
        "surfaceTitle": "Payments",
    },
    operation={"id": "create", "name": "Create", "resolverUrl": "/r", "runtimeUrl": "/m"},
    execution={"id": "run-1"},
)  # fmt: skip
BODY = b"""{"card": {"type": "visa", "n": 4, "f": 1.5, "ok": true, "none": null, "odd key": "odd",
"blank": " "}, "items": [{"id": "a"}, {"id": "b"}], "7": "seven"}"""


def scope(**changes: Any) -> Scope:
    request = MockRequest(
        "POST",
        "/payments/7",
        headers={"x-tenant": "acme", "content-type": "application/json"},
        query={"name": "Ada", "empty": "", "nested": "{{request.method}}"},
        params={"id": "7"},
        raw_body=changes.pop("body", BODY),
    )
    made = Scope(request, {"status": "paid", "a.b": "dotted"}, "accepted", random.Random(1))
    made.response = b'{"id": "r1", "n": 3}'
    return made


def rendered(text: str, **changes: Any) -> str:
    return TextTemplate(text, NAMES).render(scope(**changes))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{{suite.id}}", "shop"),
        ("{{suite.title}}", "Shop"),
        ("{{suite.repository}}", "core/shop"),
        ("{{suite.surfaceId}}", "pay"),
        ("{{suite.surfaceTitle}}", "Payments"),
        ("{{operation.id}}", "create"),
        ("{{operation.name}}", "Create"),
        ("{{operation.resolverUrl}}", "/r"),
        ("{{operation.runtimeUrl}}", "/m"),
        ("{{execution.id}}", "run-1"),
        ("{{request.method}}", "POST"),
        ("{{request.path.id}}", "7"),
        ("{{request.query.name}}", "Ada"),
        ("{{request.headers.x-tenant}}", "acme"),
        ("{{request.headers.X-Tenant}}", "acme"),
        ("{{request.body.card.type}}", "visa"),
        ("{{request.body/card/type}}", "visa"),
        ("{{request.body.card/type}}", "visa"),
        ("{{request.body.card.n}}", "4"),
        ("{{request.body.card.f}}", "1.5"),
        ("{{request.body.card.ok}}", "true"),
        ("{{request.body.card.none}}", ""),
        ("{{request.body.items[1].id}}", "b"),
        ("{{request.body.items.1.id}}", "b"),
        ("{{request.body['items'][0]}}", '{"id":"a"}'),
        ('{{request.body.card["odd key"]}}', "odd"),
        ("{{request.body.items}}", '[{"id":"a"},{"id":"b"}]'),
        ("{{request.body.7}}", "seven"),
        ("{{response.body}}", '{"id": "r1", "n": 3}'),
        ("{{response.body.id}}", "r1"),
        ("{{state.status}}", "paid"),
        ("{{state['a.b']}}", "dotted"),
        ("{{match.example}}", "accepted"),
        ("a {{ request.method }} b", "a POST b"),
        ("{{\trequest.method\n}}", "POST"),
        ("{{request.path}}", '{"id":"7"}'),
        ("{{state}}", '{"status":"paid","a.b":"dotted"}'),
    ],
)
def test_every_root_is_resolved(text, wanted):
    assert rendered(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "{{unknown}}", "{{unknown.name}}", "{{suite}}", "{{suite.nothing}}",
        "{{suite.id.more}}", "{{request}}", "{{request.nothing}}", "{{request.path.other}}",
        "{{request.query.other}}", "{{request.headers.other}}", "{{request.body.other}}",
        "{{request.body.items[2].id}}", "{{request.body.items[99999999999999999999]}}",
        "{{request.body.card.type.more}}", "{{request.body.card[0]}}", "{{request.method.more}}",
        "{{state.other}}", "{{response}}", "{{response.headers}}", "{{match}}", "{{match.other}}",
        "{{execution}}", "{{request.path.id.more}}", "{{request.body.items.x}}",
        "{{request.body.items.²}}", "{{request.method()}}", "{{uuuid()}}",
    ],
)  # fmt: skip
def test_what_is_unknown_is_empty(text):
    assert rendered(text) == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{{reqest.path.id}}", '"reqest" is not known; did you mean request?'),
        ("{{nwo}}", '"nwo" is not known; did you mean now?'),
        ("{{zzz}}", '"zzz" is not known; known: request, response, state, '),
        ("{{Request.body}}", '"Request" is not known; did you mean request?'),
        ("{{request.pth.id}}", 'request has no "pth"; did you mean path?'),
        ("{{request.header.x}}", 'request has no "header"; did you mean headers?'),
        ("{{request}}", "request needs a member: method, path, query, headers, body, rawBody"),
        ("{{suite.name}}", 'suite has no "name"; '),
        ("{{response.status}}", 'response has no "status"; known: body'),
        ("{{match.exampel}}", 'match has no "exampel"; did you mean example?'),
        ("{{request.query.a || stat.b || 'c'}}", '"stat" is not known; did you mean state?'),
        ("{{uper(request.path.id)}}", 'there is no function "uper"; did you mean upper?'),
        ("{{ noww() }}", 'there is no function "noww"; did you mean now?'),
        (
            "{{jsonPaht request.body '$.x'}}",
            'there is no function "jsonPaht"; did you mean jsonPath?',
        ),
        ("{{randomValeu type='UUID'}}", 'there is no function "randomValeu"; did you mean random'),
        ("{{uper request.path.id}}", 'there is no function "uper"; did you mean upper?'),
        ("{{#if request.query.a}}", "blocks are not known; write an example with a condition"),
        ("{{#each request.body.a}}", "blocks are not known; insert a whole list"),
        ("{{#switch x}}", "blocks are not known; write an example"),
        ("{{queryParam 'id'}}", 'there is no function "queryParam"; write request.query.NAME'),
        ("{{faker 'person.firstName'}}", 'there is no function "faker"; write one of faker.name'),
        ("{{faker.nmae()}}", 'there is no function "faker.nmae"; did you mean name?'),
        ("{{upper(request.pth.id)}}", 'request has no "pth"; did you mean path?'),
        ("{{upper(lower(uper('a')))}}", 'there is no function "uper"; '),
        ("{{upper}}", "write upper(text)"),
        ("{{now('1 day', 'yyyy', 3)}}", "write now(offset, format)"),
        ("{{now ofset='1 day'}}", 'now has no option "ofset"; did you mean offset?'),
        ("{{uuid a=1}}", 'uuid has no option "a"; none is known'),
        ("{{upper(request.path.id}}", "the arguments of upper do not end"),
        ("{{uuid() > put(x)}}", '">" behind a call'),
        ("{{upper request.path.}}", '"request.path." is not a path'),
        ("{{jsonPath(request.body, '$[')}}", "$[: "),
        ("{{jsonPath(request.body, request.query.p)}}", "the path of jsonPath is a quoted text"),
        ("{{xPath(request.body, '//a[//b]')}}", "//a[//b]: "),
        ("{{counter(request.path.id)}}", "the name of a counter is a quoted text"),
        ("{{" + "upper(" * 10 + "'a'" + ")" * 10 + "}}", "more than 8 calls"),
    ],
)
def test_a_path_or_function_that_does_not_exist_is_a_problem(text, says):
    (problem,) = template_problems(f"a {text} b {{{{request.path.id}}}}")
    assert problem.startswith(f"{text}: {says}"), problem


@pytest.mark.parametrize(
    "text",
    [
        "plain", "{{request.path.absent}}", "{{request.query.a || 'x'}}", "{{request.headers}}",
        "{{request.body.a[0]['b c']}}", "{{request/query/a}}", "{{state}}", "{{state.a}}",
        "{{state['a.b']}}", "{{response.body}}", "{{response.body.a}}", "{{'{{'}}x}}",
        "{{'now()'}}", "{{now}}", "{{pick('a', uuid)}}",
        "{{}}", "{{user name}}", "{{> part}}", "{{.a}}", "{{ a | b }}", "{ {now} }",
        "{{suite.title}}{{operation.name}}{{execution.id}}{{match.example}}{{request.rawBody}}",
    ],
)  # fmt: skip
def test_what_a_request_may_lack_and_what_is_no_expression_is_no_problem(text):
    assert list(template_problems(text)) == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{{request.query.other || 'you'}}", "you"),
        ('{{request.query.other || "you"}}', "you"),
        ("{{request.query.name || 'you'}}", "Ada"),
        ("{{request.query.empty || state.status}}", "paid"),
        ("{{request.body.card.blank || 'x'}}", "x"),
        ("{{request.body.card.none || 'x'}}", "x"),
        ("{{request.query.other || request.path.other}}", ""),
        ("{{'first' || request.method}}", "first"),
        ("{{suite.nothing || ' ' || suite.id}}", "shop"),
        ("{{ 'a || b' }}", "a || b"),
        ("{{ 'it is }} here' }}", "it is }} here"),
        ("{{ '{{' }}", "{{"),
        ("{{a||b||'c'}}", "c"),
    ],
)
def test_the_first_alternative_that_is_not_blank_wins(text, wanted):
    assert rendered(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "{{}}", "{{ }}", "{{#if request.method}}", "{{request.method", "request.method}}",
        "{{ a b }}", "{{.a}}",
        "{{a..b}}", "{{a[}}", "{{a[x]}}", "{{'a' 'b'}}", "{{ it's }}",
        "{{a | b}}", "{ {request.method} }", "{{a.}}", "{{a[0]b}}",
    ],
)  # fmt: skip
def test_what_is_no_expression_stays_text(text):
    assert rendered(text) == text


def test_a_rendered_value_is_never_rendered_again():
    assert rendered("{{request.query.nested}}") == "{{request.method}}"
    body = BodyTemplate('{"a": "{{request.query.nested}}"}', NAMES)
    assert body.render(scope()) == b'{"a": "{{request.method}}"}'


def test_templates_without_a_request_are_constants():
    assert TextTemplate("x {{suite.id}} {{suite.nothing || 'y'}}", NAMES).constant == "x shop y"
    assert TextTemplate("{{request.method}}", NAMES).constant is None
    assert BodyTemplate('{"a": "{{suite.id}}"}', NAMES).constant == b'{"a": "shop"}'


@pytest.mark.parametrize(
    ("body", "raw", "value"),
    [
        (b"", "", ""),
        (b"plain", "plain", "plain"),
        (b"\xff", "\ufffd", "\ufffd"),
        (b'{"a": 1}', '{"a": 1}', '{"a":1}'),
        (b"[1]", "[1]", "[1]"),
        (b'"text"', '"text"', "text"),
        (b"null", "null", ""),
        (b"12345678901234567890123", "12345678901234567890123", "12345678901234567890123"),
    ],
)
def test_the_body_is_there_as_sent_and_as_read(body, raw, value):
    assert rendered("{{request.rawBody}}", body=body) == raw
    assert rendered("{{request.body}}", body=body) == value


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"a": "{{request.query.q}}"}', b'{"a": "say \\"hi\\" \\\\ \\n"}'),
        ('{"a": "{{request.query.none || \\"x\\"}}"}', b'{"a": "x"}'),
        ('{"{{request.method}}": 1}', b'{"GET": 1}'),
        ('{"a": "\\u00e4 \\" {{request.method}}"}', '{"a": "ä \\" GET"}'.encode()),
        ('{"a": "{{request.body}}"}', b'{"a": "{\\"x\\":\\"\\\\\\"\\"}"}'),
        ('{"a": {{request.query.q}}}', b'{"a": say "hi" \\ \n}'),  # no JSON: inserted as it is
        ("<a>{{request.query.q}}</a>", b'<a>say "hi" \\ \n</a>'),
    ],
)
def test_values_are_escaped_in_bodies_that_are_json(text, wanted):
    request = MockRequest("GET", "/", query={"q": 'say "hi" \\ \n'}, raw_body=b'{"x": "\\""}')
    made = BodyTemplate(text, NAMES).render(Scope(request, {}, "", random.Random(1)))
    assert made == wanted


def test_a_template_has_a_bounded_number_of_expressions():
    assert TextTemplate("{{suite.id}}" * MAX_EXPRESSIONS, NAMES).constant
    with pytest.raises(TemplateInvalid, match="expressions"):
        TextTemplate("{{request.method}}" * (MAX_EXPRESSIONS + 1), NAMES)
    with pytest.raises(TemplateInvalid, match="expressions"):
        BodyTemplate(f'["{"{{request.method}}" * 600}", "{"{{request.method}}" * 600}"]', NAMES)


def test_a_rendered_text_is_bounded():
    with pytest.raises(AnswerTooLarge):
        rendered("{{request.rawBody}}" * 100, body=b"x" * 200_000)
    with pytest.raises(AnswerTooLarge):  # counted before the parts are joined
        rendered("{{request.body}}" * 900, body=b"[" + b"1," * 50_000 + b"1]")


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("card.type", ("card", "type")),
        ("items[0].id", ("items", 0, "id")),
        ("[0]", (0,)),
        ("a/b", ("a", "b")),
        ("a[ 'b c' ]", ("a", "b c")),
        ("x-tenant", ("x-tenant",)),
        ("$ref", ("$ref",)),
        ("", None),
        (".a", None),
        ("a.", None),
        ("a..b", None),
        ("a b", None),
        ("a[b]", None),
        ("a[-1]", None),
        ("a" + ".b" * 60, None),
    ],
)
def test_paths_are_read_in_linear_time(text, steps):
    assert parse_path(text) == steps


def test_a_path_through_other_values_leads_nowhere():
    assert value_at({"a": [1]}, ("a", 0)) == 1
    for path in (("b",), ("a", 1), ("a", "x"), ("a", 0, "b"), (0,)):
        assert value_at({"a": [1]}, path) is MISSING
