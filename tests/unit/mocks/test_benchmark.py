"""The parts of `bench mocks`: what it serves, what it asks and what it says of the figures."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from bench import mock_api, mock_load, mocks
from bench.mock_plane import application_of, requests
from bench.mocks import GRPC, LEAN, OURS, PLAIN, STATEFUL, Row
from kernel.prepared_answers import EXTENSION

ID = "1001"


async def answered(application: Any, request: mock_api.Request) -> tuple[int, bytes]:
    start, body = await exchanged(application, request)
    return start["status"], body["body"]


async def exchanged(
    application: Any, request: mock_api.Request, whole: list[bytes] | None = None
) -> list[dict[str, Any]]:
    """Return the messages of an answer; with `whole`, it is taken in one call and put there."""
    path, _, query = request.path.replace(mock_api.ID, ID).partition("?")
    body = request.body.encode()
    headers = [(name.lower().encode(), value.encode()) for name, value in request.headers.items()]
    if body:
        headers.append((b"content-length", str(len(body)).encode()))
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http", "method": request.method, "path": path, "raw_path": path.encode(),
        "query_string": query.encode(), "headers": headers,
    }  # fmt: skip

    def send_whole(head: bytes, answer: bytes) -> bool:
        assert whole is not None
        whole.extend((head, answer))
        return True

    if whole is not None:
        scope["extensions"] = {EXTENSION: {"send": send_whole}}
    await application(scope, receive, send)
    return sent


@pytest.mark.parametrize(
    ("form", "suites"), [("plain", 2), ("stateful", 1), ("checked", 1), ("unchecked", 1)]
)
async def test_the_plane_answers_what_the_benchmark_expects(form: str, suites: int) -> None:
    application = application_of(form, operations=20, suites=suites)
    asked = requests(form, 20, suites)
    assert len({request.path.split("/")[3] for request in asked}) == suites
    for request in [*asked, *asked]:
        status, body = await answered(application, request)
        assert status == 200, body
        for text in request.expected:
            assert text.replace(mock_api.ID, ID) in body.decode()


@pytest.mark.parametrize(("operations", "stubs"), [(20, 20), (40, 40)])
def test_plain_mappings_hold_the_same_documents(
    tmp_path: Path, operations: int, stubs: int
) -> None:
    mock_api.write_plain_mappings(tmp_path, operations)
    mappings = json.loads((tmp_path / "mappings/all.json").read_text())["mappings"]
    assert len(mappings) == stubs
    assert {len(each["response"]["body"]) for each in mappings} == {mock_api.SIZE}


def test_the_script_of_the_load_asks_for_every_operation(tmp_path: Path) -> None:
    asked = mock_api.stateful_requests(20)
    mock_load.write_script(tmp_path / "wrk.lua", asked)
    text = (tmp_path / "wrk.lua").read_text()
    assert text.count("  ask(") == len(asked) == 20
    assert '["X-Tenant"] = "acme"' in text
    assert r'"{\"type\":\"paid\",\"amount\":42,' in text


def row(server: str, answers: str, cpu_us: float, p99_ms: float = 1.0) -> Row:
    return Row(server, answers, cpu_us, 1e6 / cpu_us, 0.5, p99_ms, 0.3, 50.0)


def test_the_verdict_names_each_goal() -> None:
    rows = [
        row(OURS, PLAIN, 40), row("WireMock", PLAIN, 160, p99_ms=2), row(LEAN, PLAIN, 100),
        row(OURS, STATEFUL, 50), row("WireMock", STATEFUL, 300, p99_ms=2), row("Prism", PLAIN, 400),
        row(mocks.RAW, PLAIN, 50), row(OURS, mocks.CHECKED, 90), row(OURS, mocks.UNCHECKED, 45),
        row("Prism", mocks.CHECKED, 450),
        row(OURS, mocks.LARGE, 60), row("Partita, mock serve", PLAIN, 40),
        *(row(OURS, f"static, {suites:,} suites", 41) for suites in mocks.SUITES),
        row(OURS, GRPC, 200), row("grpc.aio, a bare servicer", GRPC, 190),
    ]  # fmt: skip
    said = mocks.verdict({(each.server, each.answers): each for each in rows}).split("; ")
    assert said == [
        "static: 0.80 of raw ASGI's CPU (goal 0.44): MISSED",
        "checking a body of 1 KiB: 45 µs (goal 40): MISSED",
        "checked POST: Prism's CPU: 5.0 times (goal 3): met",
        "static: WireMock's CPU: 4.0 times (goal 3.5): met",
        "stateful: WireMock's CPU: 6.0 times (goal 2.5): met",
        "p99 0.50 of WireMock's (goal: below 1): met",
        f"static: {LEAN}'s CPU: 2.5 times (goal 3.5): MISSED",
        "stateful: our requests per CPU second, of Prism's: 8.0 times (goal 4): met",
        "static, 500 operations: 1.50 times the CPU of 20 operations (goal 1.15): MISSED",
        "static, 100 suites: 1.02 times the CPU of 20 operations (goal 1.15): met",
        "static, 1,000 suites: 1.02 times the CPU of 20 operations (goal 1.15): met",
        "mock serve: cold start 0.30 s (goal 0.5): met",
        "50 MB after the load (goal 100): met",
        "gRPC: a bare servicer has 1.05 times our rate (goal 1.11): met.",
    ]


@pytest.mark.parametrize("form", ["plain", "stateful", "checked"])
@pytest.mark.parametrize("origin", [False, True])
async def test_a_whole_answer_is_the_same_as_its_messages(form: str, *, origin: bool) -> None:
    application = application_of(form, operations=20, suites=1)
    for request in requests(form, 20, 1):
        headers = {**request.headers, "X-Request-Id": "given"} | (
            {"Origin": "https://a.example"} if origin else {}
        )
        asked = dataclasses.replace(request, headers=headers)
        await answered(application, asked)  # so that both see the same state
        whole: list[bytes] = []
        messages = await exchanged(application, asked)
        assert await exchanged(application, asked, whole) == []
        start, body = messages
        lines = b"".join(b"%b: %b\r\n" % pair for pair in start["headers"])
        assert whole[0] == b"HTTP/1.1 200 OK\r\n" + lines
        assert whole[1] == body["body"]
        assert (b"access-control-allow-origin: *\r\n" in whole[0]) is origin
