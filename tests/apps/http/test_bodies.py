"""Request bodies (reference: control-plane 1)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.apps.http.conftest import Ask

JSON = {"Content-Type": "application/json"}


def faults(answer: Any) -> list[tuple[str, str]]:
    return [(entry["pointer"], entry["code"]) for entry in answer.json()["errors"]]


def test_a_good_body_is_taken_and_null_counts_as_absent(ask: Ask) -> None:
    answer = ask("POST", "/api/v1/echo", json={"fileName": "a", "count": None, "env": {"A": "1"}})

    assert answer.json() == {"fileName": "a", "env": {"A": "1"}}


def test_each_unknown_key_and_wrong_type_is_pointed_at(ask: Ask) -> None:
    body = {
        "fileName": 5,
        "count": "7",
        "flag": 1,
        "tags": ["a", 2],
        "env": {"A/B": 1},
        "nested": {"depth": 1, "x~y": 1},
        "lines": [{"depth": True}],
        "extra": 1,
    }

    answer = ask("POST", "/api/v1/echo", json=body)

    assert (answer.status_code, answer.json()["code"]) == (400, "validation_failed")
    assert faults(answer) == [
        ("/fileName", "wrong_type"),
        ("/count", "wrong_type"),
        ("/flag", "wrong_type"),
        ("/tags/1", "wrong_type"),
        ("/env/A~1B", "wrong_type"),
        ("/nested/x~0y", "unknown_field"),
        ("/lines/0/depth", "wrong_type"),
        ("/extra", "unknown_field"),
    ]


def test_missing_and_unfit_values_are_pointed_at(ask: Ask) -> None:
    answer = ask("POST", "/api/v1/echo", json={"lines": [{"depth": 1}, {"depth": -1}]})

    assert faults(answer) == [("/fileName", "required"), ("/lines/1/depth", "invalid_value")]


def test_null_for_a_required_key_counts_as_missing(ask: Ask) -> None:
    assert faults(ask("POST", "/api/v1/echo", json={"fileName": None})) == [
        ("/fileName", "required")
    ]


def test_a_body_that_is_no_object_is_of_the_wrong_type(ask: Ask) -> None:
    assert faults(ask("POST", "/api/v1/echo", json=[1])) == [("", "wrong_type")]


def test_the_agent_protocol_lets_unknown_keys_pass(ask: Ask) -> None:
    assert ask("POST", "/api/v1/tolerant", json={"name": "a", "new": 1}).json() == {"name": "a"}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b'{"fileName": "a\\u0000"}',
        b'{"fileName": "\\ud800"}',
        b'{"\\udfff": 1}',
        b'{"count": NaN}',
        b'{"count": -Infinity}',
        b'{"count": 1e999}',
        b'{"count": ' + b"9" * 5000 + b"}",
        b"[" * 65 + b"]" * 65,
        b"[" * 100_000,
        b'{"a":' * 65 + b"1" + b"}" * 65,
        b" ",
    ],
)
def test_malformed_json_is_400(ask: Ask, body: bytes) -> None:
    answer = ask("POST", "/api/v1/echo", content=body, headers=JSON)

    assert (answer.status_code, answer.json()["code"]) == (400, "malformed_json")


def test_64_levels_are_not_too_deep(ask: Ask) -> None:
    answer = ask("POST", "/api/v1/echo", content=b"[" * 64 + b"]" * 64, headers=JSON)

    assert answer.json()["code"] == "validation_failed"


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_other_media_types_are_415(ask: Ask, media_type: str) -> None:
    answer = ask("POST", "/api/v1/echo", content=b"{}", headers={"Content-Type": media_type})

    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    assert answer.json()["detail"].endswith("; send application/json")


def test_a_415_repeats_the_beginning_of_a_long_media_type(ask: Ask) -> None:
    media_type = f"text/{'x' * 5000}"

    answer = ask("POST", "/api/v1/echo", content=b"{}", headers={"Content-Type": media_type})

    assert answer.status_code == 415
    assert f'Content-Type "text/{"x" * 75}" is not accepted; ' in answer.json()["detail"]


def test_more_than_10_mib_is_413_whether_declared_or_chunked(ask: Ask) -> None:
    async def chunks() -> AsyncGenerator[bytes]:
        for _ in range(11):
            yield b"x" * 2**20

    declared = ask("POST", "/api/v1/echo", content=b" " * (10 * 2**20 + 1), headers=JSON)
    chunked = ask("POST", "/api/v1/echo", content=chunks(), headers=JSON)

    for answer in (declared, chunked):
        assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


def test_a_chunked_body_is_read(ask: Ask) -> None:
    async def chunks() -> AsyncGenerator[bytes]:
        yield b'{"fileName":'
        yield b' "a"}'

    assert ask("POST", "/api/v1/echo", content=chunks(), headers=JSON).json() == {"fileName": "a"}


@pytest.mark.slow
def test_10_mib_are_taken(ask: Ask) -> None:
    text = json.dumps({"fileName": ""})
    name = "x" * (10 * 2**20 - len(text))

    answer = ask("POST", "/api/v1/echo", content=json.dumps({"fileName": name}), headers=JSON)

    assert answer.status_code == 200
