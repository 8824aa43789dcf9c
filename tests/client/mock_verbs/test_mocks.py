"""`mock explain|verify|state|journal|reset` against the real API, called in this process."""

from __future__ import annotations

import json
import time

import pytest
import yaml

from mocks.engine import documents
from mocks.model.calls import CallOutcome
from mocks.model.spaces import SpaceName
from partita_client.command.mock_calls import requirement
from partita_client.command.mock_spaces import OUTCOMES
from tests.support.client_views import TypedWords, ask_views
from tests.support.openapi_answers import check_against_openapi
from tests.support.served_mocks import MemoryParts

pytestmark = pytest.mark.django_db
SHARED = SpaceName("shop")


@pytest.fixture
def shell(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    served: MemoryParts,
) -> TypedWords:
    ask_views(monkeypatch)
    return TypedWords(capsys)


def test_the_outcomes_are_those_of_the_server():
    assert set(OUTCOMES) == set(map(str, CallOutcome))


def test_explain_shows_each_candidate_and_what_answers(shell: TypedWords):
    said = shell.run("mock", "explain", "shop", "shop", "POST", "/orders", "-d", '{"yacht": 2}')

    assert "✗ refused" in said
    assert "✗ body yacht must be '1'; it is '2'" in said
    assert "✓ accepted  ← answers" in said
    assert "state record: orders placed=0" in said
    assert "status 201, application/json" in said


def test_explain_takes_headers_and_ids_and_prints_the_document(shell: TypedWords):
    words = ("mock", "explain", "shop", "shop", "GET", "/goods?q=UP", "-H", "X-A: 1")

    explained = shell.json(*words)
    check_against_openapi("mocks_explain", explained)
    assert explained["constraints"][0]["ok"] is False
    as_yaml = yaml.safe_load(shell.run(*words, "-o", "yaml"))
    assert as_yaml["error"]["code"] == "mock_constraint_failed"
    assert "mock_constraint_failed" in shell.run(*words)
    by_id = shell.json("mock", "explain", "shop", "payments", "POST", "Capture")
    assert by_id["operationId"] == "Capture"
    shell.run("mock", "explain", "shop", "shop", "GET", "/goods", "-H", "no colon", code=2)
    assert "expected 'NAME: VALUE'" in shell.stderr


def test_a_space_without_anything_says_so(shell: TypedWords):
    assert len(shell.run("mock", "state", "shop").splitlines()) == 1

    assert shell.stderr == "no records and no counters in this space yet\n"


def test_state_is_shown_set_and_reset(shell: TypedWords, served: MemoryParts):
    served.call(SHARED, "shop", "POST", "/orders")
    served.call(SHARED, "shop", "POST", "/orders")

    lines = shell.run("mock", "state", "shop").splitlines()
    assert lines[1].split()[:3] == ["orders", "placed=2", "2"]
    told = shell.run(
        "mock", "state", "shop", "--key", "orders", "--set", "paid=a=b", "--unset", "placed"
    )
    assert told == "orders  paid=a=b  version 3\n"
    made = shell.json("mock", "state", "shop", "--key", "new", "--set", "a=", "--surface", "shop")
    check_against_openapi("mocks_state_patch", made)
    assert made["fields"] == {"a": ""}
    check_against_openapi("mocks_state", shell.json("mock", "state", "shop"))
    assert shell.run("mock", "state", "shop", "-o", "name") == "new\norders\n"
    assert shell.run("mock", "reset", "shop", "--key", "new") == "records and counters removed: 1\n"
    assert shell.json("mock", "reset", "shop", "--calls") == {"removed": 1, "forgottenCalls": 2}
    assert shell.json("mock", "state", "shop") == {"records": [], "counters": []}


def test_counters_are_shown(shell: TypedWords, served: MemoryParts):
    served.call(SHARED, "shop", "POST", "/orders")
    shell.run("mock", "state", "shop")
    served.draw(SHARED, "payments", "Capture")

    assert "payments  Capture    1" in shell.run("mock", "state", "shop")


@pytest.mark.parametrize("words", [("--set", "a=1"), ("--key", "k", "--set", "novalue")])
def test_a_set_that_says_too_little_is_refused(shell: TypedWords, words: tuple[str, ...]):
    shell.run("mock", "state", "shop", *words, code=2)

    assert "name it with --key" in shell.stderr or "expected FIELD=VALUE" in shell.stderr


def test_the_journal_is_read_over_pages_oldest_first(shell: TypedWords, served: MemoryParts):
    for number in range(250):
        served.note(SHARED, path=f"/goods/{number}\x1b[31m")
    served.note(SHARED, outcome=CallOutcome.NO_MATCH, status=404, matched_example="")

    lines = shell.run("mock", "journal", "shop").splitlines()
    assert len(lines) == 252
    assert "/goods/0 " in lines[1]
    assert "\x1b" not in lines[1]
    unmatched = shell.json("mock", "journal", "shop", "--outcome", "no_match")
    check_against_openapi("mocks_journal", unmatched)
    assert [each["outcome"] for each in unmatched["entries"]] == ["no_match"]
    (line,) = shell.run("mock", "journal", "shop", "--outcome", "no_match", "-o", "ndjson").split(
        "\n"
    )[:-1]
    assert json.loads(line) == unmatched["entries"][0]


def test_a_followed_journal_prints_each_call_once(
    shell: TypedWords, served: MemoryParts, monkeypatch: pytest.MonkeyPatch
):
    served.note(SHARED, path="/first")
    turns = iter(["/second", "/third"])

    def sleep(_seconds: float) -> None:
        path = next(turns, "")
        if not path:
            raise KeyboardInterrupt
        served.note(SHARED, path=path)

    monkeypatch.setattr(time, "sleep", sleep)

    said = shell.run("mock", "journal", "shop", "--follow", "-o", "json", code=130)

    paths = [json.loads(line)["path"] for line in said.splitlines()]
    assert paths == ["/first", "/second", "/third"]


def test_a_followed_journal_is_lines_for_people(
    shell: TypedWords, served: MemoryParts, monkeypatch: pytest.MonkeyPatch
):
    served.note(SHARED, path="/first\x1b[31m")

    def end(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", end)

    (line,) = shell.run("mock", "journal", "shop", "--follow", code=130).splitlines()
    assert line.split()[1:5] == ["GET", "/first", "200", "example"]


def test_exit_codes_tell_what_is_wrong(shell: TypedWords):
    shell.run("mock", "state", "nothing", code=3)
    assert "suite_not_found" in shell.stderr
    shell.run(
        "mock", "journal", "shop", "--run", "http://x/executions/run-0123456789ab?tab=mocks", code=3
    )
    assert "execution_not_found" in shell.stderr


def test_help_has_examples_of_every_verb(shell: TypedWords):
    said = shell.run("mock", "--help")

    for verb in ("explain", "state", "journal", "reset", "verify"):
        assert f"partita mock {verb} shop" in said


@pytest.mark.parametrize("operator", [None, "matches", "contains", "in", "gt", "lte", "absent"])
@pytest.mark.parametrize("is_opposite", [False, True])
@pytest.mark.parametrize("expected", ["true", "a"])
def test_a_condition_reads_as_on_the_server(
    operator: str | None,
    is_opposite: bool,
    expected: str,
):
    condition = {"from": "query", "param": "q", "expected": expected, "not": is_opposite}
    condition |= {"operator": operator} if operator else {}

    assert requirement(condition) == documents.requirement(condition)


ORDERS = ("mock", "verify", "shop", "--method", "post", "--path", "/orders")


def test_verify_says_whether_the_calls_came(shell: TypedWords, served: MemoryParts):
    for card in ("visa", "mc"):
        served.note(SHARED, method="POST", path="/orders", request_body=f'{{"card": "{card}"}}')

    assert shell.run(*ORDERS, "--count", "2") == "✓ found 2 calls of POST /orders\n"
    assert shell.run(*ORDERS, "--count", "1", "--when", "body:card=visa").startswith("✓ found 1 ")
    assert shell.run(*ORDERS, "--at-least", "2", "--when", "body:card~^(visa|mc)$")
    assert shell.run(*ORDERS, "--at-most", "2", "--when", "body:card", "--valid", "true")
    as_json = '{"from": "body", "param": "card", "in": ["visa"]}'
    answer = shell.json(*ORDERS, "--count", "1", "--when", as_json)
    check_against_openapi("mocks_verify", answer)
    assert (answer["count"], answer["calls"][0]["id"]) == (1, "call-0001")
    missed = shell.run(*ORDERS, "--count", "2", "--when", "body:card=visa", code=1)
    assert missed.endswith('body.card is "mc", not "visa"\n')
    assert json.loads(shell.run(*ORDERS, "--count", "3", "-o", "json", code=1))["count"] == 2
    assert shell.run("mock", "verify", "shop", "--unmatched", "--count", "0")


@pytest.mark.parametrize(
    "words",
    [
        ("--when", "bdy:card=visa"),
        ("--when", "cookie:sid=1"),
        ("--count", "1", "--at-most", "2"),
        ("--tag", "no tag"),
        ("--since", "yesterday"),
    ],
)
def test_a_wrong_question_is_a_matter_of_usage(shell: TypedWords, words: tuple[str, ...]):
    shell.run(*ORDERS, *words, code=2)

    assert shell.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--when", "card=visa"), "expected SOURCE:NAME=VALUE"),
        (("--when", "{"), "is not JSON"),
        (("--count", "two"), "invalid int"),
        (("--outcome", "matched"), "choose from example"),
    ],
)
def test_the_parser_refuses_what_it_can(shell: TypedWords, words: tuple[str, ...], said: str):
    shell.run(*ORDERS, *words, code=2)

    assert said in shell.stderr


def test_verify_finds_no_space_as_the_other_verbs_do(shell: TypedWords):
    shell.run("mock", "verify", "nothing", code=3)

    assert "suite_not_found" in shell.stderr


def test_the_journal_of_a_tag(shell: TypedWords, served: MemoryParts):
    for tag in ("a", "b"):
        served.note(SHARED, tag=tag, request_query="q=ea")

    assert "/goods?q=ea  200" in shell.run("mock", "journal", "shop", "--tag", "a")
    assert [
        each["tag"] for each in shell.json("mock", "journal", "shop", "--tag", "b")["entries"]
    ] == ["b"]
