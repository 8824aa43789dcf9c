"""The WebSocket of the client against servers that others wrote, and against wrong ones."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.server import ServerConnection, serve

from partita_client.errors import ApiProblem, NoConnection, NotPartita
from partita_client.transport import HttpTransport
from partita_client.websocket import SocketClosed, WebSocket, open_websocket
from partita_client.websocket_frames import Opcode, SocketMessage
from tests.support.fake_partita import TOKEN, FakePartita, serve_bytes, serve_proxy
from tests.support.registries import certificate

Talk = Callable[[ServerConnection], None]


@contextmanager
def peer(talk: Talk, context: ssl.SSLContext | None = None, **more: Any) -> Iterator[int]:
    """Serve with the library `websockets`; yield the port."""
    with serve(talk, "127.0.0.1", 0, ssl=context, max_size=None, **more) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.socket.getsockname()[1]
        finally:
            server.shutdown()
            thread.join(10)


def read_from(opened: WebSocket, wanted: int, within_s: float = 30) -> list[SocketMessage]:
    """Return so many messages, as a loop with `select` gets them."""
    deadline = time.monotonic() + within_s
    messages = list[SocketMessage]()
    while len(messages) < wanted:
        assert time.monotonic() < deadline, messages
        opened.flush()
        messages += opened.receive()
        if not opened.has_more:
            select.select([opened], [opened] if opened.wants_write else [], [], 0.2)
    return messages


def echo(connection: ServerConnection) -> None:
    for message in connection:
        connection.send(message)


def transport_to(port: int, **more: Any) -> HttpTransport:
    return HttpTransport(f"http://127.0.0.1:{port}", TOKEN, **more)


def test_messages_of_all_sizes_come_back():
    sizes = (0, 1, 125, 126, 65_535, 65_536, 1_000_000)
    with peer(echo) as port, open_websocket(transport_to(port), "/ws", {}) as opened:
        for size in sizes:
            opened.send(Opcode.BINARY, b"x" * size)
        opened.send(Opcode.TEXT, "späß".encode())
        *sized, text = read_from(opened, len(sizes) + 1)

    assert [len(each.content) for each in sized] == list(sizes)
    assert text.text == "späß"


def test_the_handshake_has_path_query_and_token():
    seen = list[tuple[str, str | None]]()

    def talk(connection: ServerConnection) -> None:
        assert connection.request is not None
        seen.append((connection.request.path, connection.request.headers.get("Authorization")))

    with peer(talk) as port, pytest.raises(SocketClosed) as closed:
        attempt(transport_to(port), "/ws/1", after=7)

    assert seen == [("/ws/1?after=7", f"Bearer {TOKEN}")]
    assert closed.value.code == 1000


def test_parts_are_put_together_and_pings_are_answered():
    answered = threading.Event()

    def talk(connection: ServerConnection) -> None:
        connection.send([b"a", b"b" * 70_000, b"c"])
        pong = connection.ping("there?")
        connection.send(iter(["sp", "äß"]))
        if pong.wait(20):
            answered.set()
        connection.send(b"last")

    with peer(talk) as port, open_websocket(transport_to(port), "/ws", {}) as opened:
        whole, text, last = read_from(opened, 3)

    assert whole.content == b"a" + b"b" * 70_000 + b"c"
    assert (text.text, last.content) == ("späß", b"last")
    assert answered.is_set()


def test_a_pong_says_that_what_was_sent_before_it_arrived():
    with peer(echo) as port, open_websocket(transport_to(port), "/ws", {}) as opened:
        opened.send(Opcode.BINARY, b"typed")
        opened.send(Opcode.PING, b"12345678")
        kinds = {each.opcode: each.content for each in read_from(opened, 2)}

    assert kinds == {Opcode.BINARY: b"typed", Opcode.PONG: b"12345678"}


def test_a_close_is_answered_and_what_came_before_is_not_lost():
    closed_with = list[int | None]()

    def talk(connection: ServerConnection) -> None:
        connection.send(b"before")
        connection.close(4403, "role_required")
        closed_with.append(connection.close_code)

    with peer(talk) as port, open_websocket(transport_to(port), "/ws", {}) as opened:
        assert read_from(opened, 1)[0].content == b"before"
        with pytest.raises(SocketClosed) as closed:
            read_from(opened, 1)

    assert (closed.value.code, closed.value.reason) == (4403, "role_required")
    assert closed_with == [4403]


def test_a_message_without_bound_is_refused():
    codes = list[int | None]()

    def talk(connection: ServerConnection) -> None:
        with contextlib.suppress(Exception):
            connection.send(b"x" * (2**20 + 1))
            connection.recv(timeout=20)
        codes.append(connection.close_code)

    words = "a message of more than 1048576 bytes"
    with peer(talk) as port, pytest.raises(NotPartita, match=words):
        attempt(transport_to(port))

    assert codes == [1009]


def test_a_side_that_does_not_read_blocks_nobody():
    """Ten megabytes are on their way before the server takes the first."""
    go, got = threading.Event(), list[int]()

    def talk(connection: ServerConnection) -> None:
        go.wait(20)
        got.append(sum(len(connection.recv()) for _ in range(160)))
        connection.send(b"all")

    with peer(talk) as port, open_websocket(transport_to(port), "/ws", {}) as opened:
        for _ in range(160):
            opened.send(Opcode.BINARY, b"x" * 65_536)
        assert opened.wants_write
        go.set()
        assert read_from(opened, 1)[0].content == b"all"

    assert got == [160 * 65_536]


def test_by_tls_with_a_private_authority_through_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.chain, made.key)
    monkeypatch.setattr("partita_client.addresses._LOOPBACK", ())

    with peer(echo, context) as port, serve_proxy() as (proxy, seen):
        monkeypatch.setenv("https_proxy", proxy)
        address = f"https://127.0.0.1:{port}"
        transport = HttpTransport(address, TOKEN, str(made.authority))
        with open_websocket(transport, "/ws", {}) as opened:
            for _ in range(20):
                opened.send(Opcode.BINARY, b"x" * 65_536)
            assert sum(len(each.content) for each in read_from(opened, 20)) == 20 * 65_536
        with pytest.raises(NoConnection, match="the certificate"):
            attempt(HttpTransport(address, TOKEN))

    assert {each.partition(" Basic")[0] for each in seen} == {f"CONNECT 127.0.0.1:{port}"}


def attempt(transport: HttpTransport, path: str = "/ws", **query: object) -> None:
    with open_websocket(transport, path, query) as opened:
        read_from(opened, 1)


def test_without_tls_a_proxy_is_asked_for_a_tunnel_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("partita_client.addresses._LOOPBACK", ())
    with peer(echo) as port, serve_proxy() as (proxy, seen):
        monkeypatch.setenv("http_proxy", proxy)
        transport = HttpTransport(f"http://127.0.0.1:{port}", TOKEN)
        with open_websocket(transport, "/ws", {}) as opened:
            opened.send(Opcode.TEXT, b"hello")
            assert read_from(opened, 1)[0].text == "hello"

    assert seen[0].startswith(f"CONNECT 127.0.0.1:{port} Basic ")


def test_what_comes_together_with_the_answer_is_read():
    with (
        serve_socket(lambda key: accept(key) + b"\x82\x05early") as port,
        open_websocket(transport_to(port), "/ws", {}) as opened,
    ):
        assert read_from(opened, 1)[0].content == b"early"


def accept(key: str) -> bytes:
    digest = hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n"
    )


@contextmanager
def serve_socket(answer: Callable[[str], bytes]) -> Iterator[int]:
    """Answer one handshake with these bytes, for the key of the client."""
    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def work() -> None:
        near, _ = listener.accept()
        with near:
            request = near.recv(65_536).decode()
            key = request.lower().partition("sec-websocket-key: ")[0]
            near.sendall(answer(request[len(key) :].split("\r\n")[0].partition(": ")[2]))
            done.wait(20)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        done.set()
        thread.join(10)
        listener.close()


WRONG = {
    "another key": (lambda _: accept("another"), "does not belong to the key"),
    "no key": (
        lambda _: b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        "does not belong to the key",
    ),
    "another protocol": (
        lambda key: accept(key).replace(b"Upgrade: websocket", b"Upgrade: h2c"),
        "does not upgrade to a WebSocket",
    ),
    "an extension": (
        lambda key: accept(key)[:-2] + b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
        "an extension or a protocol that was not asked for",
    ),
    "a subprotocol": (
        lambda key: accept(key)[:-2] + b"Sec-WebSocket-Protocol: chat\r\n\r\n",
        "an extension or a protocol that was not asked for",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_to_the_handshake_is_refused(name: str):
    answer, words = WRONG[name]
    with serve_socket(answer) as port, pytest.raises(NotPartita, match=words):
        attempt(transport_to(port))


def test_a_frame_under_a_mask_ends_the_connection_with_its_code():
    with (
        serve_socket(lambda key: accept(key) + b"\x82\x81maskx") as port,
        pytest.raises(NotPartita, match="a frame of a server that is masked"),
    ):
        attempt(transport_to(port))


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (b"200 OK", NotPartita, "answered 200 instead of opening a WebSocket"),
        (b"403 Forbidden", NotPartita, "answered 403 instead of opening a WebSocket"),
        (b"502 Bad Gateway", NoConnection, "is away: a proxy answered 502"),
    ],
)
def test_an_answer_that_opens_nothing_says_why(status: bytes, error: type[Exception], words: str):
    content = b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\nno"
    with serve_bytes(content) as (url, _), pytest.raises(error, match=words):
        attempt(HttpTransport(url, TOKEN))


def test_a_problem_document_is_an_error_of_the_server(fake: FakePartita):
    with pytest.raises(ApiProblem) as refused:
        attempt(HttpTransport(fake.url, "pat_other"))

    assert refused.value.code == "token_revoked"


def test_an_end_without_a_close_is_a_cut():
    def talk(connection: ServerConnection) -> None:
        connection.send(b"before")
        connection.socket.shutdown(socket.SHUT_RDWR)

    with peer(talk) as port, open_websocket(transport_to(port), "/ws", {}) as opened:
        assert read_from(opened, 1)[0].content == b"before"
        with pytest.raises(NoConnection, match="it was cut") as cut:
            read_from(opened, 1)

    assert not isinstance(cut.value, SocketClosed)
