"""Conditions beyond equality: operators, alternatives, JSONPath, XPath and cookies."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mocks.engine.documents import requirement
from surfaces.body_queries import QueryInvalid, compile_query
from surfaces.model import Condition
from tests.support.mocks import mock_of
from tests.support.surfaces import hydrated

SPEC = "path: '/pay/{id}', method: POST, state: {lookupKeyTemplate: k, defaults: {n: '5'}}"
BODY = b"""{"total": 12.5, "note": "paid in Rome", "items": [{"id": 1, "tag": "abc"}, {"id": 2}],
 "none": null}"""
XML = b"""<?xml version="1.0"?><s:Envelope xmlns:s="urn:s"><s:Body><o:order xmlns:o="urn:o" id="7">
<o:item>a</o:item><o:item>b</o:item></o:order></s:Body></s:Envelope>"""


def example(name: str, when: str = "") -> str:
    return f"{name}: {{when: [{when}], response: {{body: {name}}}}}"


async def chosen(when: str, *, body: bytes = BODY) -> bool:
    mocks = mock_of(SPEC, f"{example('yes', when)}, {example('no')}")
    answer = await mocks.call(
        "/pay/7?q=abc&n=10&empty=",
        headers={"X-Tenant": "acme", "Cookie": 'a=1; session="s 1"; b=2'},
        body=body,
    )
    return answer.body == b"yes"


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("from: query, param: q, equals: abc", True),
        ("from: query, param: q, equals: ab", False),
        ("from: query, param: q, matches: '^a.c$'", True),
        ("from: query, param: q, matches: b", True),
        ("from: query, param: q, matches: '^b'", False),
        ("from: query, param: absent, matches: '.*'", False),
        ("from: query, param: q, contains: bc", True),
        ("from: query, param: q, contains: bd", False),
        ("from: query, param: absent, absent: true", True),
        ("from: query, param: empty, absent: true", False),
        ("from: query, param: q, absent: false", True),
        ("from: query, param: absent, absent: false", False),
        ("from: query, param: q, in: [x, abc]", True),
        ("from: query, param: n, in: [9, 10]", True),
        ("from: query, param: q, in: [x]", False),
        ("from: query, param: n, gt: 9.5", True),
        ("from: query, param: n, gt: 10", False),
        ("from: query, param: n, gte: '10'", True),
        ("from: query, param: n, lt: 10", False),
        ("from: query, param: n, lte: 1e1", True),
        ("from: query, param: q, gt: 0", False),
        ("from: query, param: absent, lt: 9", False),
        ("from: body, param: total, gt: 12", True),
        ("from: body, param: none, absent: true", False),
        ("from: body, param: none, value: null", True),
        ("from: body, param: 'items[0].tag', matches: '^a'", True),
        ("from: state, param: n, gte: 5", True),
        ("from: header, param: x-TENANT, contains: cm", True),
        ("from: path, param: id, in: [7]", True),
        ("from: cookie, param: session, value: s 1", True),
        ("from: cookie, param: Session, absent: true", True),
        ("from: query, param: q, not: {matches: x}", True),
        ("from: query, param: q, not: {value: abc}", False),
        ("from: query, param: absent, not: {value: abc}", True),
        ("from: query, param: q, not: {absent: true}", True),
        ("from: query, param: q, NOT: {Contains: z}", True),
        ("from: body, jsonPath: '$.items[?@.id==1]', absent: false", True),
        ("from: body, jsonPath: '$.items[?(@.id == 3)]', absent: true", True),
        ("from: body, jsonPath: '$.items[*].id', value: 2", True),
        ("from: body, jsonPath: '$.items[*].id', not: {value: 2}", False),
        ("from: body, jsonPath: '$..tag', matches: '^abc$'", True),
        ("from: body, jsonPath: '$.items[?search(@.tag, \"b\")].id', value: 1", True),
        ("from: body, param: '$.items[0].tag', value: abc", True),
        ("from: body, jsonPath: '$.total', gt: 12.4", True),
        ("from: body, xpath: '//order/@id', value: 7", False),
    ],
)
async def test_each_operator_looks_at_what_is_there(condition, holds):
    assert await chosen(f"{{{condition}}}") is holds


@pytest.mark.parametrize(
    ("xpath", "operator", "holds"),
    [
        ("//order/@id", "value: 7", True),
        ("//o:order/o:item", "value: b", True),
        ("/Envelope/Body/order[item=\"a\"]/@id", "gt: 6", True),
        ("count(//item)", "value: 2", True),
        ("//item[.=\"c\"]", "absent: true", True),
        ("boolean(//item)", "value: true", True),
        ("string(//order/@id)", "matches: '^7$'", True),
        ("//item/text()", "in: [b, c]", True),
    ],
)  # fmt: skip
async def test_xpath_looks_into_xml_whatever_its_namespaces(xpath, operator, holds):
    condition = f"{{from: body, xpath: '{xpath}', {operator}}}"
    assert await chosen(condition, body=XML) is holds


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{}", b"<a", b"<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>", b"\xff<a/>",
        b"<a>" * 50_000, b"<a>" + b"<b/>" * 20_000 + b"</a>", b'<a b="1" x:b="2"/>',
    ],
)  # fmt: skip
async def test_what_is_no_harmless_xml_has_nothing(body):
    assert await chosen("{from: body, xpath: '//*', absent: true}", body=body)


async def test_xml_whose_elements_lie_deep_is_not_looked_through() -> None:
    """Each step to descendants looks at all of them from each: 3 s for this document."""
    leaves = b"<b/>" * 4_500
    assert await chosen("{from: body, xpath: '//b', absent: false}", body=b"<r>%b</r>" % leaves)
    deep = b"<a>" * 200 + leaves + b"</a>" * 200
    assert await chosen("{from: body, xpath: '//b', absent: true}", body=deep)


A, B, C = (f"{{from: query, param: {name}, value: 1}}" for name in "abc")


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("a=1", "either"), ("b=1", "none"), ("b=1&c=1", "either"), ("c=1", "none"), ("", "none"),
        ("a=1&d=1", "d"), ("b=1&c=1&d=1", "d"), ("d=12", "matching"),
    ],
)  # fmt: skip
async def test_one_alternative_of_any_of_must_hold_and_counts_as_its_conditions(query, name):
    matching = "{from: query, param: d, matches: '1'}"
    mocks = mock_of(
        "path: /pay, method: GET",
        ", ".join(
            [
                example("none"), example("matching", matching),
                example("d", "{from: query, param: d, value: 1}, " + matching),
                example("either", f"{{anyOf: [{A}, [{B}, {C}]]}}"),
            ]
        ),
    )  # fmt: skip
    assert (await mocks.call(f"/pay?{query}")).example == name


async def test_sequence_draws_an_example_once_though_two_alternatives_hold():
    mocks = mock_of(
        "path: /pay, method: GET, dispatcher: sequence",
        f"{example('x', f'{{anyOf: [{A}, {B}]}}')}, {example('y')}",
    )
    names = [(await mocks.call("/pay?a=1&b=1")).example for _ in range(4)]
    assert names == ["x", "y", "x", "y"]


async def test_explain_and_the_nearest_example_show_operator_expected_and_actual():
    when = "{from: query, param: q, not: {matches: '^a'}}, {from: body, jsonPath: '$..id', gt: 5}"
    mocks = mock_of("path: /pay, method: POST", example("x", when))
    found = await mocks.explain("/pay?q=abc", body=BODY)

    conditions = found["candidates"][0]["conditions"]
    assert conditions == [
        {"from": "query", "param": "q", "operator": "matches", "not": True, "expected": "^a",
         "actual": "abc", "ok": False},
        {"from": "body", "param": "$..id", "operator": "gt", "syntax": "jsonPath",
         "expected": "5", "actual": '["1","2"]', "ok": False},
    ]  # fmt: skip
    assert found["error"]["nearest"] == {"example": "x", "conditions": conditions}
    assert [requirement(each) for each in conditions] == [
        "query q must not match '^a'",
        "body $..id must be greater than '5'",
    ]


async def test_explain_marks_alternatives_and_the_nearest_one_is_shown():
    mocks = mock_of("path: /pay, method: GET", example("x", f"{{anyOf: [{A}, [{B}, {C}]]}}"))
    found = await mocks.explain("/pay?b=1")
    (candidate,) = found["candidates"]

    assert [(one["param"], one["alternative"], one["ok"]) for one in candidate["conditions"]] == [
        ("a", 1, False), ("b", 2, True), ("c", 2, False),
    ]  # fmt: skip
    assert not candidate["matched"]
    assert [one["param"] for one in found["error"]["nearest"]["conditions"]] == ["c"]
    assert (await mocks.explain("/pay?b=1&c=1"))["candidates"][0]["matched"]


async def test_the_nearest_example_hides_a_cookie():
    mocks = mock_of(
        "path: /pay, method: GET", example("x", "{from: cookie, param: sid, contains: other}")
    )
    answer = await mocks.call("/pay", headers={"Cookie": "sid=secret"})
    assert answer.nearest is not None
    assert answer.nearest["conditions"][0]["actual"] == "********"


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({"operator": "absent", "expected": "true"}, "query q must be absent"),
        ({"operator": "absent", "expected": "true", "not": True}, "query q must be there"),
        ({"operator": "absent", "expected": "false"}, "query q must be there"),
        ({"expected": "x"}, "query q must be 'x'"),
        ({"expected": "x", "not": True}, "query q must not be 'x'"),
        ({"operator": "in", "expected": '["a"]'}, "query q must be one of '[\"a\"]'"),
    ],
)
def test_a_requirement_reads_as_a_sentence(condition, words):
    assert requirement({"from": "query", "param": "q", **condition}) == words


BROKEN = [
    ("{from: query, param: q}", 'requires value or another operator: equals, matches'),
    ("{from: query, param: q, wen: x}", 'no key "wen"; '),
    ("{from: query, param: q, matchs: x}", 'no key "matchs"; did you mean matches?'),
    ("{from: query, param: q, valeu: x}", 'no key "valeu"; did you mean value?'),
    ("{from: query, param: q, value: x, extra: y}", 'no key "extra"; '),
    ("{from: query, parm: q, value: x}", 'no key "parm"; did you mean param?'),
    ("{form: query, param: q, value: x}", 'no key "form"; did you mean from?'),
    ("{from: query, param: q, equalTo: x}", 'no key "equalTo"; write value'),
    ("{from: query, param: q, doesNotMatch: x}", "write not: {matches: …}"),
    ("{from: query, param: q, greaterThan: 3}", "write gt"),
    ("{from: body, matchesJsonPath: $.a}", "write jsonPath"),
    ("{from: query, param: q, value: x, matches: y}", "has one of equals, matches"),
    ("{from: query, param: q, value: x, not: {matches: y}}", "has one of equals, not"),
    ("{from: query, param: q, not: x}", "write not: {value: x}"),
    ("{from: query, param: q, not: {}}", "requires value or another operator"),
    ("{from: query, param: q, not: {matchs: x}}", 'not has no key "matchs"; did you mean'),
    ("{from: query, param: q, not: {not: {value: x}}}", 'not has no key "not"'),
    ("{from: query, param: q, matches: '(?=x)'}", "not a regular expression (RE2)"),
    ("{from: query, param: q, matches: ''}", "a pattern is a text"),
    ("{from: query, param: q, value: [a, b]}", "several are in: [a, b]"),
    ("{from: query, param: q, in: a}", "in lists values"),
    ("{from: query, param: q, in: []}", "in lists values"),
    ("{from: query, param: q, in: [[a]]}", "expected a text"),
    ("{from: query, param: q, gt: many}", "expected a number"),
    ("{from: query, param: q, gt: '1_0'}", "expected a number"),
    ("{from: query, param: q, gt: inf}", "expected a number"),
    ("{from: query, param: q, absent: maybe}", "write true or false"),
    ("{from: coockie, param: q, value: x}", '"coockie" is not a source; use one of path'),
    ("{param: q, value: x}", "is not a source"),
    ("{from: body, param: a..b, value: x}", '"a..b" is not a path'),
    ("{from: body, param: a, jsonPath: $.a, value: x}", "only one of param, jsonPath"),
    ("{from: query, jsonPath: $.a, value: x}", "write from: body"),
    ("{from: body, jsonPath: '$.a[', value: x}", "the jsonPath $.a[: "),
    ("{from: body, jsonPath: '$.a[?@.b =~ /x/]', value: x}", "unexpected token"),
    ("{from: body, jsonPath: '$.a.length()', value: x}", "unexpected token"),
    ("{from: body, jsonPath: '$[?lower(@.a)]', value: x}", "lower"),
    ("{from: body, param: '$.a[', value: x}", "the jsonPath $.a[: "),
    ("{from: body, xpath: '//a[', value: x}", "the xpath //a[: "),
    ("{from: body, xpath: 're:test(//a, \"x\")', value: x}", 'no function "test"'),
    ("{from: body, xpath: '//a[//b]', value: x}", "is not allowed within [ ]"),
    ("{from: body, xpath: '//a[1 and /b]', value: x}", "is not allowed within [ ]"),
    ("{from: body, xpath: '//a/following::b', value: x}", "the axis following is not used"),
    ("{from: body, xpath: '//a[$x]', value: x}", "variables are not known"),
    ("{from: body, xpath: '//a//b//c//d//e//f//g', value: x}", "too often"),
    ("q", "a condition is a mapping"),
    ("{anyOf: []}", "anyOf lists conditions"),
    ("{anyOf: [[]]}", "an alternative of anyOf needs a condition"),
    ("{anyOf: [{from: query, param: q, value: x}], from: query}", "anyOf stands alone"),
    ("{any: [{from: query, param: q, value: x}]}", "write anyOf"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "says"), BROKEN)
def test_a_wrong_condition_is_an_error_of_its_file_with_its_place(condition, says):
    text = f"examples:\n  a:\n    when:\n      - {condition}\n"
    found = hydrated({"mock/s/op.yaml": text, "mock/s/op.metadata.yaml": ""})

    ((code, file, line, column),) = found.warnings
    assert (code, file, line) == ("mock_examples_invalid", "mock/s/op.yaml", 4)
    assert column
    assert says in found.details[0]


def test_the_wire_names_operator_opposite_syntax_and_alternative():
    text = """examples: {a: {when: [{from: query, param: q, equals: x},
      {anyOf: [{from: query, param: n, in: [1, b]},
       [{from: body, jsonPath: $.a, not: {contains: z}}]]}]}}"""
    found = hydrated({"mock/s/op.yaml": text, "mock/s/op.metadata.yaml": ""})
    assert found.warnings == []
    assert found.only["exchanges"][0]["when"] == [
        {"from": "query", "param": "q", "value": "x"},
        {"from": "query", "param": "n", "operator": "in", "value": '["1", "b"]', "alternative": 1},
        {"from": "body", "param": "$.a", "operator": "contains", "not": True,
         "syntax": "jsonPath", "value": "z", "alternative": 2},
    ]  # fmt: skip
    assert "n=1" in found.only["curlCommand"]


@pytest.mark.parametrize(
    ("operator", "value", "sample"),
    [
        ("equals", "x", "x"), ("contains", "x", "x"), ("in", '["b", "c"]', "b"), ("gte", "3", "3"),
        ("gt", "2.5", "3"), ("lt", "2.5", "1"), ("matches", "a+", None), ("absent", "true", None),
    ],
)  # fmt: skip
def test_a_sample_suits_its_condition(operator, value, sample):
    made = Condition(source="query", param="q", value=value, operator=operator)
    assert made.sample == sample


@pytest.mark.parametrize(
    "query",
    ["$..*..*..*..*..*", "$[?count($..*)>1]", "$..[?@.b=='y']", "$[?search(@.b, '(x+x+)+y')]"],
)
def test_a_search_through_a_large_body_ends_soon(query):
    body = [{"a": [1, 2, 3], "b": "x" * 50}] * 20_000
    begin = time.process_time()
    compile_query("jsonPath", query)(body)
    assert time.process_time() - begin < 2


WORDS = st.sampled_from(
    ["$", ".", "..", "[", "]", "?", "@", "a", "*", "'x'", "==", "(", ")", "//", "/", "count", ",",
     "text()", "1", "match", "\x00", "ü", " or ", "::", "|", "-"]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(words=st.lists(WORDS, max_size=12), syntax=st.sampled_from(["jsonPath", "xpath"]))
def test_any_text_is_a_query_or_refused_and_no_search_fails(words, syntax):
    try:
        find = compile_query(syntax, "".join(words))
    except QueryInvalid:
        return
    bodies: list[Any] = [json.loads(BODY), [], "text", None, 3, XML, b""]
    for body in bodies:
        assert find(body) is not None


SCALARS = st.one_of(st.text(max_size=8), st.integers(), st.booleans(), st.none(), st.floats())
CONDITIONS = st.dictionaries(
    st.sampled_from(
        ["from", "param", "value", "matches", "in", "gt", "absent", "not", "jsonPath", "xpath",
         "anyOf", "contains", "x"]
    ),
    st.recursive(
        SCALARS, lambda below: st.lists(below, max_size=2) | st.dictionaries(
            st.sampled_from(["value", "gt", "in", "from", "x"]), below, max_size=2
        ), max_leaves=4,
    ),
    max_size=5,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(when=st.lists(CONDITIONS, max_size=3))
def test_any_condition_is_read_or_an_error_of_its_file(when):
    text = json.dumps({"examples": {"a": {"when": when}}})
    hydrated({"mock/s/op.json": text, "mock/s/op.metadata.yaml": ""})
