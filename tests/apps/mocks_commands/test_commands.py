"""`manage.py mock explain|state|journal|reset`, with the REST views as the server."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest
import yaml
from django.core.management import CommandError, call_command
from django.test import Client

from apps.accounts.services.administrators import ensure_seed_admin
from mocks.model.calls import CallOutcome
from mocks.model.spaces import SpaceName
from tests.support.served_mocks import MemoryParts

SHARED = SpaceName("shop")
CLIENT = httpx.Client


class Views(httpx.BaseTransport):
    """Django's views as a server."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = Client(raise_request_exception=False).generic(
            request.method,
            request.url.raw_path.decode(),
            request.read(),
            content_type=request.headers.get("content-type", ""),
            headers={"Authorization": request.headers["authorization"]},
        )
        return httpx.Response(answer.status_code, content=answer.content, request=request)


class Nobody(httpx.BaseTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused", request=request)


@pytest.fixture(autouse=True)
def _server(monkeypatch: pytest.MonkeyPatch, served: MemoryParts) -> None:
    ensure_seed_admin("root@example.org", "Correct-Horse-1")
    answer_with(monkeypatch, Views())


def answer_with(monkeypatch: pytest.MonkeyPatch, transport: httpx.BaseTransport) -> None:
    monkeypatch.setattr(httpx, "Client", lambda **more: CLIENT(**more | {"transport": transport}))


class Shell:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.stderr = ""

    def run(self, *words: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            call_command("mock", *words)
        told = self._capsys.readouterr()
        self.stderr = told.err
        assert ended.value.code == code, told.err
        return told.out

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "-o", "json"))


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


def test_explain_shows_each_candidate_and_what_answers(shell: Shell):
    said = shell.run("explain", "shop", "shop", "POST", "/orders", "-d", '{"yacht": 2}')

    assert "✗ refused" in said
    assert "✗ body yacht must be '1'; it is '2'" in said
    assert "✓ accepted  ← answers" in said
    assert "state record: orders placed=0" in said
    assert "status 201, application/json" in said


def test_explain_takes_headers_and_ids_and_prints_the_document(shell: Shell):
    words = ("explain", "shop", "shop", "GET", "/goods?q=UP", "-H", "X-A: 1")

    assert shell.json(*words)["constraints"][0]["ok"] is False
    as_yaml = yaml.safe_load(shell.run(*words, "-o", "yaml"))
    assert as_yaml["error"]["code"] == "mock_constraint_failed"
    assert "mock_constraint_failed" in shell.run(*words)
    by_id = shell.json("explain", "shop", "payments", "POST", "Capture")
    assert by_id["operationId"] == "Capture"
    shell.run("explain", "shop", "shop", "GET", "/goods", "-H", "no colon", code=1)
    assert "expected 'NAME: VALUE'" in shell.stderr


def test_state_is_shown_set_and_reset(shell: Shell, served: MemoryParts):
    served.call(SHARED, "shop", "POST", "/orders")
    served.call(SHARED, "shop", "POST", "/orders")

    lines = shell.run("state", "shop").splitlines()
    assert lines[1].split()[:3] == ["orders", "placed=2", "2"]
    told = shell.run("state", "shop", "--key", "orders", "--set", "paid=a=b", "--unset", "placed")
    assert told == "orders  paid=a=b  version 3\n"
    made = shell.json("state", "shop", "--key", "new", "--set", "a=", "--surface", "shop")
    assert made["fields"] == {"a": ""}
    assert shell.run("reset", "shop", "--key", "new") == "records and counters removed: 1\n"
    assert shell.json("reset", "shop", "--calls") == {"removed": 1, "forgottenCalls": 2}
    assert shell.json("state", "shop") == {"records": [], "counters": []}


def test_counters_are_shown(shell: Shell, served: MemoryParts):
    served.call(SHARED, "shop", "POST", "/orders")
    shell.run("state", "shop")
    served.draw(SHARED, "payments", "Capture")

    assert "payments  Capture    1" in shell.run("state", "shop")


@pytest.mark.parametrize("words", [("--set", "a=1"), ("--key", "k", "--set", "novalue")])
def test_a_set_that_says_too_little_is_refused(shell: Shell, words: tuple[str, ...]):
    shell.run("state", "shop", *words, code=1)

    assert "validation_failed" in shell.stderr


def test_the_journal_is_read_over_pages_oldest_first(shell: Shell, served: MemoryParts):
    for number in range(250):
        served.note(SHARED, path=f"/goods/{number}\x1b[31m")
    served.note(SHARED, outcome=CallOutcome.NO_MATCH, status=404, matched_example="")

    lines = shell.run("journal", "shop").splitlines()
    assert len(lines) == 252
    assert "/goods/0 " in lines[1]
    assert "\x1b" not in lines[1]
    unmatched = shell.json("journal", "shop", "--outcome", "no_match")["entries"]
    assert [each["outcome"] for each in unmatched] == ["no_match"]


def test_a_followed_journal_prints_each_call_once(
    shell: Shell, served: MemoryParts, monkeypatch: pytest.MonkeyPatch
):
    served.note(SHARED, path="/first")
    turns = iter(["/second", "/third"])

    def sleep(_seconds: float) -> None:
        path = next(turns, "")
        if not path:
            raise KeyboardInterrupt
        served.note(SHARED, path=path)

    monkeypatch.setattr(time, "sleep", sleep)

    said = shell.run("journal", "shop", "--follow", "-o", "json", code=130)

    paths = [json.loads(line)["path"] for line in said.splitlines()]
    assert paths == ["/first", "/second", "/third"]


def test_exit_codes_tell_what_is_wrong(shell: Shell, monkeypatch: pytest.MonkeyPatch):
    shell.run("state", "nothing", code=3)
    assert "suite_not_found" in shell.stderr
    shell.run("journal", "shop", "--run", "http://x/executions/run-0123456789ab?tab=mocks", code=3)
    assert "execution_not_found" in shell.stderr

    answer_with(monkeypatch, Nobody())
    shell.run("state", "shop", "--server", "http://elsewhere", code=6)
    assert "no control plane answers at http://elsewhere: connection refused" in shell.stderr


def test_help_has_examples_of_every_verb(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        call_command("mock", "--help")

    said = capsys.readouterr().out
    for verb in ("explain", "state", "journal", "reset"):
        assert f"partita mock {verb} shop" in said


ORDERS = ("verify", "shop", "--method", "post", "--path", "/orders")


def test_verify_says_whether_the_calls_came(shell: Shell, served: MemoryParts):
    for card in ("visa", "mc"):
        served.note(SHARED, method="POST", path="/orders", request_body=f'{{"card": "{card}"}}')

    assert shell.run(*ORDERS, "--count", "2") == "✓ found 2 calls of POST /orders\n"
    assert shell.run(*ORDERS, "--count", "1", "--when", "body:card=visa").startswith("✓ found 1 ")
    assert shell.run(*ORDERS, "--at-least", "2", "--when", "body:card~^(visa|mc)$")
    assert shell.run(*ORDERS, "--at-most", "2", "--when", "body:card", "--valid", "true")
    as_json = '{"from": "body", "param": "card", "in": ["visa"]}'
    answer = shell.json(*ORDERS, "--count", "1", "--when", as_json)
    assert (answer["count"], answer["calls"][0]["id"]) == (1, "call-0001")
    missed = shell.run(*ORDERS, "--count", "2", "--when", "body:card=visa", code=1)
    assert missed.endswith('body.card is "mc", not "visa"\n')
    assert json.loads(shell.run(*ORDERS, "--count", "3", "-o", "json", code=1))["count"] == 2
    assert shell.run("verify", "shop", "--unmatched", "--count", "0")


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
def test_a_wrong_question_is_a_matter_of_usage(shell: Shell, words: tuple[str, ...]):
    shell.run(*ORDERS, *words, code=2)

    assert shell.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--when", "card=visa"), "expected SOURCE:NAME=VALUE"),
        (("--when", "{"), "is not JSON"),
        (("--count", "two"), "invalid int"),
        (("--outcome", "matched"), "choose from 'example'"),
    ],
)
def test_the_parser_refuses_what_it_can(shell: Shell, words: tuple[str, ...], said: str):
    with pytest.raises(CommandError, match=said):
        call_command("mock", *ORDERS, *words)


def test_verify_finds_no_space_as_the_other_verbs_do(shell: Shell):
    shell.run("verify", "nothing", code=3)

    assert "suite_not_found" in shell.stderr


def test_the_journal_of_a_tag(shell: Shell, served: MemoryParts):
    for tag in ("a", "b"):
        served.note(SHARED, tag=tag, request_query="q=ea")

    assert "/goods?q=ea  200" in shell.run("journal", "shop", "--tag", "a")
    assert [each["tag"] for each in shell.json("journal", "shop", "--tag", "b")["entries"]] == ["b"]
