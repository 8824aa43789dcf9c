"""Bodies of calls that arrive slowly or by half: they are given up, and their connections end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mocks.model.calls import CallOutcome
from mocks.plane import http_requests
from mocks.standalone.plane import StandalonePlane
from mocks.standalone.served_files import ServedFiles
from mocks.standalone.served_suite import ServedSuite
from tests.apps.mocks.test_served_files import EXAMPLES, OPENAPI
from tests.support.files import write_files
from tests.support.mock_planes import Planes, planes
from tests.support.raw_calls import served

REST = "/mocks/rest/orders/orders"
HALF = "Content-Length: 10\r\n\r\n12345"
CHUNKED = "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n"


@pytest.fixture(autouse=True)
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_requests, "BODY_TIMEOUT_S", 0.2)


@pytest.fixture
async def mocks() -> AsyncIterator[Planes]:
    async with planes() as made:
        yield made


def request(line: str, rest: str) -> bytes:
    return f"{line} HTTP/1.1\r\nHost: mocks.test\r\n{rest}".encode()


def problem_of(answer: bytes) -> dict[str, object]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 "), answer[:300]
    assert b"connection: close" in head
    assert b"content-type: application/problem+json" in head
    return dict(json.loads(body))


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        (f"POST {REST}/orders", HALF),
        (f"POST {REST}/orders", "Content-Length: 10\r\n\r\n"),
        (f"POST {REST}/orders", CHUNKED),
        (f"GET {REST}/orders", HALF),  # its answer is prepared
        ("POST /mocks/grpc/orders/pay/Capture", HALF),
        ("POST /internal/mock-data/orders/orders/listOrders", HALF),
    ],
)
async def test_a_body_that_does_not_arrive_is_given_up(mocks: Planes, line: str, rest: str) -> None:
    await mocks.ask("GET", f"{REST}/orders")
    before = len(mocks.counted)
    async with served(mocks.plane) as talk:
        answer = await talk(request(line, rest))

    problem = problem_of(answer)
    assert problem["code"] == "request_timeout"
    assert problem["detail"] == "the request body has not arrived within 0.2 s"
    [(_, _, outcome)] = mocks.counted[before:]
    assert outcome == "rejected"
    newest = mocks.journal.newest("orders")[0]
    assert (newest.status, newest.outcome) == (408, CallOutcome.REJECTED)


async def test_a_body_that_trickles_in_is_given_up_at_the_same_time() -> None:
    left = 1_000

    async def receive() -> dict[str, object]:
        nonlocal left
        left -= 1
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    with pytest.raises(http_requests.BodyTooSlow):
        await http_requests.read_body({}, {b"content-length": b"1000"}, receive)
    assert left > 900


async def test_calls_of_others_and_whole_bodies_are_answered_meanwhile(mocks: Planes) -> None:
    async with served(mocks.plane) as talk:
        slow = [asyncio.create_task(talk(request(f"POST {REST}/orders", HALF))) for _ in range(20)]
        whole = "Connection: close\r\nContent-Length: 2\r\n\r\n{}"
        answer = await talk(request(f"POST {REST}/orders", whole))
        assert answer.startswith(b"HTTP/1.1 201 ")
        for each in await asyncio.gather(*slow):
            problem_of(each)


async def test_mock_serve_gives_up_bodies_of_calls_and_of_explain(tmp_path: Path) -> None:
    files = {"suite.star": "", "api/pets.yaml": OPENAPI, "mock/pets/listPets.yaml": EXAMPLES}
    folder = write_files(tmp_path / "shop", files)
    suite = ServedSuite(ServedFiles(folder), "http://127.0.0.1:1", kept=lambda *_: None)
    plane = StandalonePlane(suite, logged=None, allowed=[])
    async with served(plane) as talk:
        for line in ("GET /mocks/rest/shop/pets/pets", "POST /api/v1/mocks/explain"):
            assert problem_of(await talk(request(line, HALF)))["code"] == "request_timeout"
    plane.stop()
