"""Answers that break on purpose, as a client meets them (reference: control-plane 18.2, step 6)."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import uvicorn

from kernel.http_protocol import ProblemProtocol
from mocks.model.calls import JournalEntry
from tests.support.mock_planes import ChangingSource, Planes, content_of, files, planes

FAULTS = """
examples:
  reset: {when: [{from: query, param: f, value: reset}], response: {body: whole, fault: reset}}
  empty: {when: [{from: query, param: f, value: empty}], response: {body: whole, fault: empty}}
  half: {when: [{from: query, param: f, value: half}], response: {body: "0123456789", fault: half}}
  bare: {when: [{from: query, param: f, value: bare}], response: {status: "204", fault: half}}
  garbage: {when: [{from: query, param: f, value: garbage}], response: {fault: garbage}}
  dribble:
    when: [{from: query, param: f, value: dribble}]
    response: {body: "0123456789", fault: {dribble: {chunks: 4, over: 80ms}}}
  fine: {response: {body: fine}}
"""
BROKEN = """
spec: {fault: empty}
examples: {only: {response: {body: never seen}}}
"""
CAPTURE = "examples: {paid: {response: {body: {state: PAID}, fault: reset}}}"


def source() -> ChangingSource:
    made = ChangingSource()
    named = files(listOrders=FAULTS, getOrder=BROKEN)
    named["mock/pay/Capture.yaml"] = CAPTURE.encode()
    made.contents = {"orders": content_of(named)}
    return made


@dataclass
class Site:
    """A plane behind the product's server."""

    planes: Planes
    port: int

    def talk(self, target: str, *, method: str = "GET", connection: str = "keep-alive") -> bytes:
        """Return all that comes back until the server ends; raise ConnectionResetError."""
        path = f"/mocks/rest/orders/orders{target}"
        sent = f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: {connection}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.port), 5) as talking:
            talking.sendall(sent.encode())
            received = b""
            while part := talking.recv(65536):
                received += part
        return received

    def latest(self) -> JournalEntry:
        """Return the latest call of the journal, which is kept when the answer has gone out."""
        for _ in range(100):
            if entries := self.planes.journal.newest("orders"):
                return entries[0]
            time.sleep(0.01)
        raise AssertionError("no call was kept")


@pytest.fixture(params=["asyncio", "uvloop"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Planes(source())
    config = uvicorn.Config(
        made.plane, port=0, log_level="warning", lifespan="off", http=ProblemProtocol,
        access_log=False, loop=request.param,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield Site(made, server.servers[0].sockets[0].getsockname()[1])
    server.should_exit = True
    thread.join(10)
    made.spaces.stop()


def test_a_connection_is_reset(site: Site):
    with pytest.raises(ConnectionResetError):
        site.talk("/orders?f=reset")
    entry = site.latest()
    assert (entry.matched_example, entry.fault, entry.status) == ("reset", "reset", 0)


@pytest.mark.parametrize("target", ["/orders?f=empty", "/orders/7"])
def test_a_connection_ends_without_a_byte(site: Site, target: str):
    assert site.talk(target) == b""
    assert (site.latest().fault, site.latest().status) == ("empty", 0)


def test_an_answer_breaks_off_in_the_middle_of_its_body(site: Site):
    head, _, body = site.talk("/orders?f=half").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"content-length: 10\r\n" in head
    assert body == b"01234"
    assert (site.latest().fault, site.latest().status) == ("half", 200)


def test_an_answer_without_a_body_breaks_off_in_its_head(site: Site):
    received = site.talk("/orders?f=bare")
    assert received.startswith(b"HTTP/1.1 204 ")
    assert b"\r\n\r\n" not in received


def test_what_comes_is_no_http(site: Site):
    received = site.talk("/orders?f=garbage")
    assert len(received) == 64
    assert not received.startswith(b"HTTP")
    assert site.latest().fault == "garbage"


def test_a_body_comes_in_pieces_and_whole(site: Site):
    began = time.monotonic()
    head, _, body = site.talk("/orders?f=dribble", connection="close").partition(b"\r\n\r\n")
    assert time.monotonic() - began > 0.07
    assert body == b"0123456789"
    assert b"content-length: 10" in head
    assert (site.latest().fault, site.latest().status) == ("dribble", 200)


def test_other_answers_are_whole(site: Site):
    assert site.talk("/orders", connection="close").endswith(b"\r\n\r\nfine")
    assert site.latest().fault == ""


@pytest.mark.parametrize(
    ("fault", "received"),
    [
        ("reset", b""),
        ("empty", b""),
        ("half", b"01234"),
        ("dribble", b"0123456789"),
    ],
)
def test_faults_end_a_connection_of_http_2_as_well(site: Site, fault: str, received: bytes):
    asked = ["curl", "-s", "--http2-prior-knowledge", "-w", " %{http_code} %{exitcode}"]
    url = f"http://127.0.0.1:{site.port}/mocks/rest/orders/orders/orders?f={fault}"
    told = subprocess.run([*asked, url], capture_output=True, check=False, timeout=20).stdout
    body, code, exit_code = told.rsplit(b" ", 2)
    assert (body, code) == (received, b"200" if received else b"000")
    assert (exit_code == b"0") == (fault == "dribble")
    assert site.latest().fault == fault


async def test_a_server_that_gives_no_connection_away_says_so():
    async with planes(source()) as made:
        answer = await made.ask("GET", "/mocks/rest/orders/orders/orders?f=reset")
        assert answer.status_code == 503
        assert answer.headers["x-partita-mock-error"] == "mock_fault_unavailable"
        assert "the fault reset needs Partita's own server" in answer.json()["detail"]
        pieces = await made.ask("GET", "/mocks/rest/orders/orders/orders?f=dribble")
        assert pieces.text == "0123456789"


async def test_an_answer_with_a_fault_is_never_given_early():
    async with planes(source(), asks_early=True) as made:
        for target in ("orders?f=reset", "orders/7"):
            answer = await made.ask("GET", f"/mocks/rest/orders/orders/{target}")
            assert answer.status_code == 503
        assert made.early.answered == 0


async def test_other_adapters_have_no_faults():
    async with planes(source()) as made:
        answer = await made.ask("POST", "/mocks/grpc/orders/pay/Capture", json={"id": "1"})
        assert (answer.status_code, answer.json()["code"]) == (503, "mock_fault_unavailable")


async def test_a_gateway_is_told_the_fault():
    async with planes(source()) as made:
        headers = {"X-Partita-Original-Path": "/orders?f=dribble"}
        resolver = "/internal/mock-data/orders/orders/listOrders"
        answer = await made.ask("GET", resolver, headers=headers)
        assert answer.json()["fault"] == {"kind": "dribble", "chunks": 4, "overMillis": 80}


@pytest.mark.parametrize("asks_early", [True, False])
async def test_a_call_too_many_is_told_when_to_come_again(asks_early: bool):
    made = ChangingSource()
    limited = "spec: {rateLimit: {calls: 1, per: 30s}}\nexamples: {a: {response: {body: x}}}"
    made.contents = {"orders": content_of(files(listOrders=limited))}
    async with planes(made, asks_early=asks_early) as site:
        first, second = [await site.ask("GET", "/mocks/rest/orders/orders/orders") for _ in "12"]
        assert (first.status_code, second.status_code) == (200, 429)
        assert second.headers.get_list("retry-after") == ["30"]
        assert second.json()["code"] == "mock_rate_limited"
        assert site.journal.newest("orders")[0].outcome == "rejected"
