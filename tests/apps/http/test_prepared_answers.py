"""Whole answers in one call, as uvicorn sends them on connections that stay and that close."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from kernel.http_protocol import ProblemProtocol
from kernel.prepared_answers import EXTENSION, STATUS_LINES

HEAD = STATUS_LINES[200] + b"content-length: 4\r\nx-of: app\r\n"


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answer `/…` by the extension, `/twice` with a second answer that must not go out."""
    answer = scope["extensions"][EXTENSION]["send"]
    body = b"" if scope["method"] == "HEAD" else b"body"
    if scope["method"] == "POST":
        body = (await receive())["body"][:4]
    assert answer(HEAD, body)
    if scope["path"] == "/twice":
        assert not answer(HEAD, b"more")


class Application:
    """Answers `/early…` before there is a request of ASGI, with what it was told."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await application(scope, receive, send)

    @staticmethod
    def answer_early(
        method: bytes, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> tuple[bytes, bytes] | None:
        if not target.startswith(b"/early"):
            return None
        told = b"%b %b %d %b" % (method, target, len(headers), body)
        shown = b"" if method == b"HEAD" else told
        return STATUS_LINES[200] + b"content-length: %d\r\n" % len(told), shown


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    config = uvicorn.Config(
        Application(),
        port=0,
        log_level="warning",
        lifespan="off",
        http=ProblemProtocol,
        access_log=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(10)


def exchanged(port: int, sent: bytes) -> bytes:
    """Send requests, the last of which ends the connection; return all that comes back."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(sent)
        received = b""
        while part := connection.recv(65536):
            received += part
    return received


LAST = b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


def test_an_answer_is_whole_and_has_the_headers_of_the_server(port: int) -> None:
    head, _, body = exchanged(port, LAST).partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[:3] == [b"HTTP/1.1 200 OK", b"content-length: 4", b"x-of: app"]
    assert re.search(rb"\r\ndate: \w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT\r\n", head)
    assert b"server: uvicorn" in lines
    assert lines[-1] == b"connection: close"
    assert body == b"body"


def test_a_connection_stays_open_for_the_next_request(port: int) -> None:
    get = b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        for _ in range(3):
            connection.sendall(get)
            received = connection.recv(65536)
            assert received.endswith(b"\r\n\r\nbody")
            assert b"connection:" not in received


@pytest.mark.parametrize(
    ("request_head", "body"),
    [
        (b"HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n", b""),
        (b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nposted", b"post"),
        (
            b"POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nabcd",
            b"abcd",
        ),
        (b"GET /twice HTTP/1.1\r\nHost: a\r\n\r\n", b"body"),
    ],
)
def test_pipelined_answers_come_in_order_and_once(
    port: int, request_head: bytes, body: bytes
) -> None:
    received = exchanged(port, request_head + LAST).replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")
    answers = received.split(b"HTTP/1.1 200 OK\r\n")
    assert [answer.partition(b"\r\n\r\n")[2] for answer in answers[1:]] == [body, b"body"]


def test_http_1_0_ends_with_the_answer(port: int) -> None:
    assert exchanged(port, b"GET /x HTTP/1.0\r\n\r\n").endswith(b"connection: close\r\n\r\nbody")


def test_an_early_answer_has_the_headers_of_the_server_and_ends_the_connection(port: int) -> None:
    get = b"GET /early?a=b HTTP/1.1\r\nHost: a\r\nX-Of: b\r\nConnection: close\r\n\r\n"
    head, _, body = exchanged(port, get).partition(b"\r\n\r\n")
    assert body == b"GET /early?a=b 3 "
    assert head.startswith(b"HTTP/1.1 200 OK\r\ncontent-length: 17\r\ndate: ")
    assert head.endswith(b"\r\nconnection: close")


def test_an_early_answer_is_told_the_body_that_came_with_the_head(port: int) -> None:
    post = b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
    answers = exchanged(port, post + LAST).split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert [each.partition(b"\r\n\r\n")[2] for each in answers] == [
        b"POST /early 2 body", b"body",
    ]  # fmt: skip


def test_a_body_that_comes_later_goes_the_usual_way_whole(port: int) -> None:
    head = b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"
    for here, later in ((b"", b"late"), (b"la", b"te")):
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(head + here)
            time.sleep(0.05)  # else both arrive at once
            connection.sendall(later + LAST)
            received = b""
            while part := connection.recv(65536):
                received += part
        first, last = received.split(b"HTTP/1.1 200 OK\r\n")[1:]
        assert first.partition(b"\r\n\r\n")[2] == (here or b"late")
        assert last.endswith(b"\r\n\r\nbody")


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (b"HEAD /early HTTP/1.1\r\nHost: a\r\n\r\n", b""),
        (b"GET /early HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /early 1 "),
        (b"GET /usual HTTP/1.1\r\nHost: a\r\n\r\n", b"body"),
        (
            b"POST /early HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            b"POST /early 1 ab",
        ),
        (
            b"POST /early HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab",
            b"ab",
        ),
    ],
)
def test_early_and_usual_answers_keep_the_order_of_their_requests(
    port: int, first: bytes, told: bytes
) -> None:
    early = b"GET /early/2 HTTP/1.1\r\nHost: a\r\n\r\n"
    received = exchanged(port, first + early + LAST).replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")
    answers = received.split(b"HTTP/1.1 200 OK\r\n")[1:]
    bodies = [answer.partition(b"\r\n\r\n")[2] for answer in answers]
    assert bodies[0] == told
    assert bodies[1] in (b"GET /early/2 1 ", b"body")  # usual behind a usual one
    assert bodies[2] == b"body"


def test_an_early_answer_to_http_1_0_ends_the_connection(port: int) -> None:
    received = exchanged(port, b"GET /early HTTP/1.0\r\n\r\n")
    assert received.endswith(b"\r\nconnection: close\r\n\r\nGET /early 0 ")


def test_what_follows_an_early_answer_may_be_no_request(port: int) -> None:
    received = exchanged(port, b"GET /early HTTP/1.1\r\nHost: a\r\n\r\nnonsense\r\n\r\n")
    assert received.count(b"HTTP/1.1 200 OK") == 1
    assert b"HTTP/1.1 405 Method Not Allowed" in received
