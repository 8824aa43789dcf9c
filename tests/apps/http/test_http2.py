"""HTTP/2 beside HTTP/1.1 on one port: requests, windows, ends, and what one client may do.

Calls of mocks over HTTP/2 are in tests/apps/mocks/test_plane.py.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hpack import Encoder
from hyperframe.frame import ContinuationFrame, Frame, HeadersFrame, PingFrame, SettingsFrame

from kernel import http2
from kernel.http_protocol import ProblemProtocol
from kernel.prepared_answers import EXTENSION, STATUS_LINES
from tests.sync.gateway.certificates import Authority

BIG = b"0123456789abcdef" * 2**17  # 2 MiB


class Application:
    """Answers by path; `calls` are those under way, `seen` the scopes."""

    def __init__(self) -> None:
        self.calls = 0
        self.seen: list[Any] = []
        self.released = asyncio.Event()
        self.left = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(scope)
        self.calls += 1
        try:
            await self._answer(scope, receive, send)
        finally:
            self.calls -= 1

    def answer_early(
        self, method: bytes, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> tuple[bytes, bytes] | None:
        if not target.startswith(b"/early"):
            return None
        told = b"%b %b %b %b" % (method, target, dict(headers)[b"host"], body)
        head = STATUS_LINES[201] + b"content-length: %d\r\nx-of:  app \r\n" % len(told)
        return head, b"" if method == b"HEAD" else told

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        headers = [(b"X-Path", path.encode()), (b"transfer-encoding", b"chunked")]
        status = 204 if path == "/nothing" else 200
        start = {"type": "http.response.start", "status": status, "headers": headers}
        if path == "/fails":
            raise ValueError("on purpose")
        if path == "/prepared":
            head = STATUS_LINES[200] + b"content-length: 4\r\nconnection: close\r\n"
            assert scope["extensions"][EXTENSION]["send"](head, b"body")
            return
        if path == "/leaves":
            await _read_until(receive, lambda message: message["type"] == "http.disconnect")
            self.left.set()
            return
        if path == "/waits":
            await self.released.wait()
        size = await _read_until(receive, _is_last) if path in ("/upload", "/early") else 0
        await send(start)
        pieces = [BIG] if path == "/big" else [b"%d," % size] * 3
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            assert path != "/breaks"
        await send({"type": "http.response.body", "body": b""})


async def _read_until(receive: Any, is_last: Callable[[Any], bool]) -> int:
    """Return how many bytes of a body came."""
    size = 0
    while True:
        message = await receive()
        size += len(message.get("body", b""))
        if is_last(message):
            return size


def _is_last(message: Any) -> bool:
    return not message["more_body"]


class Client:
    """A connection whose frames a test chooses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.h2 = H2Connection(H2Configuration(header_encoding="utf-8"))
        self.bodies: dict[int, bytes] = {}
        self.heads: dict[int, dict[str, str]] = {}
        self.ended: set[int] = set()
        self.resets: dict[int, ErrorCodes | int] = {}
        self.goaway: events.ConnectionTerminated | None = None
        self.grants = True

    def ask(self, path: str, method: str = "GET", *, ends: bool = True, **more: str) -> int:
        number = self.h2.get_next_available_stream_id()
        headers = [(":method", method), (":scheme", "http"), (":authority", "a.test")]
        self.h2.send_headers(number, [*headers, (":path", path), *more.items()], end_stream=ends)
        self.flush()
        return number

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    async def read(self, until: Callable[[], object]) -> None:
        """Take what comes until `until()` is true or the connection ends."""
        async with asyncio.timeout(20):
            while not until():
                try:
                    data = await self.reader.read(65536)
                except ConnectionError:  # it ended while we sent
                    return
                if not data:
                    return
                for event in self.h2.receive_data(data):
                    self._take(event)
                self.flush()

    async def answer(self, number: int) -> tuple[dict[str, str], bytes]:
        await self.read(lambda: number in self.ended or number in self.resets)
        return self.heads.get(number, {}), self.bodies.get(number, b"")

    async def read_to_the_end(self) -> None:
        await self.read(lambda: False)

    def _take(self, event: events.Event) -> None:
        if isinstance(event, events.ResponseReceived):
            self.heads[event.stream_id] = dict(event.headers)  # type: ignore[arg-type]
        elif isinstance(event, events.DataReceived):
            known = self.bodies.get(event.stream_id, b"")
            self.bodies[event.stream_id] = known + event.data
            if self.grants:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, events.StreamEnded):
            self.ended.add(event.stream_id)
        elif isinstance(event, events.StreamReset):
            self.resets[event.stream_id] = event.error_code
        elif isinstance(event, events.ConnectionTerminated):
            self.goaway = event


class Place:
    def __init__(self, application: Application, server: uvicorn.Server) -> None:
        self.application, self.server = application, server
        self.port = server.servers[0].sockets[0].getsockname()[1]

    async def until_called(self) -> None:
        async with asyncio.timeout(5):
            while not self.application.calls:  # noqa: ASYNC110 - it may be called again
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def connect(self, **settings: int) -> AsyncIterator[Client]:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        named: dict[SettingCodes | int, int] = {
            SettingCodes[name]: value for name, value in settings.items()
        }
        client.h2.local_settings.update(named)
        client.h2.initiate_connection()
        client.h2.update_settings(named)
        client.flush()
        try:
            yield client
        finally:
            client.writer.transport.abort()


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    application = Application()
    config = uvicorn.Config(
        application, port=0, log_level="critical", lifespan="off", http=ProblemProtocol,
        access_log=False, timeout_graceful_shutdown=5,
    )  # fmt: skip
    async with serving(config) as server:
        yield Place(application, server)
        application.released.set()


@asynccontextmanager
async def serving(config: uvicorn.Config) -> AsyncIterator[uvicorn.Server]:
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve())
    while not server.started:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)
    yield server
    server.should_exit = True
    await task


async def test_a_request_has_what_one_of_http_1_has(place: Place):
    async with place.connect() as client:
        head, body = await client.answer(client.ask("/a%20b?q=1", cookie="a=1; b=2"))
    assert (head[":status"], head["x-path"], body) == ("200", "/a b", b"0,0,0,")
    assert {"date", "server"} <= set(head)
    assert "transfer-encoding" not in head
    [scope] = place.application.seen
    assert (scope["http_version"], scope["scheme"], scope["method"]) == ("2", "http", "GET")
    assert (scope["raw_path"], scope["query_string"]) == (b"/a%20b", b"q=1")
    assert scope["headers"] == [(b"host", b"a.test"), (b"cookie", b"a=1; b=2")]


async def test_streams_are_answered_beside_one_another_and_early_where_it_can_be(place: Place):
    async with place.connect() as client:
        waiting = client.ask("/waits")
        quick = [client.ask(f"/early/{number}") for number in range(5)]
        answers = [await client.answer(each) for each in quick]
        assert waiting not in client.heads
        place.application.released.set()
        assert (await client.answer(waiting))[0][":status"] == "200"
    assert {head[":status"] for head, _ in answers} == {"201"}
    assert {head["x-of"] for head, _ in answers} == {"app"}
    assert answers[4][1] == b"GET /early/4 a.test "
    assert len(place.application.seen) == 1


async def test_a_body_that_came_with_its_request_is_known_early(place: Place):
    async with place.connect() as client:
        number = client.h2.get_next_available_stream_id()
        pairs = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/early")]
        client.h2.send_headers(number, pairs)
        client.h2.send_data(number, b"posted", end_stream=True)
        client.flush()
        assert (await client.answer(number))[1] == b"POST /early a posted"


@pytest.mark.parametrize(
    ("path", "method", "status", "body"),
    [
        ("/big", "HEAD", "200", b""),
        ("/early", "HEAD", "201", b""),
        ("/nothing", "GET", "204", b""),
        ("/prepared", "GET", "200", b"body"),
        ("/fails", "GET", "500", b"Internal Server Error"),
        ("*", "OPTIONS", "200", b"0,0,0,"),
    ],
)
async def test_answers_end_as_they_should(
    place: Place, path: str, method: str, status: str, body: bytes
):
    async with place.connect() as client:
        head, received = await client.answer(client.ask(path, method))
        assert (head[":status"], received) == (status, body)
        assert "connection" not in head
        again = client.ask("/early")  # the connection stays
        assert (await client.answer(again))[0][":status"] == "201"


async def test_an_answer_that_breaks_off_resets_its_stream_alone(place: Place):
    async with place.connect() as client:
        broken = client.ask("/breaks")
        assert (await client.answer(broken))[1] == b"0,"
        assert client.resets == {broken: ErrorCodes.INTERNAL_ERROR}
        assert (await client.answer(client.ask("/early")))[0][":status"] == "201"


async def test_a_large_answer_waits_for_the_windows_of_its_client(place: Place):
    async with place.connect(INITIAL_WINDOW_SIZE=1_000) as client:
        client.grants = False
        number = client.ask("/big")
        await client.read(lambda: len(client.bodies.get(number, b"")) >= 1_000)
        assert client.bodies[number] == BIG[:1_000]
        assert (await client.answer(client.ask("/early")))[0][":status"] == "201"
        client.grants = True
        client.h2.increment_flow_control_window(2**22)
        client.h2.increment_flow_control_window(2**22, number)
        client.flush()
        assert (await client.answer(number))[1] == BIG


async def test_a_large_body_comes_as_fast_as_it_is_read(place: Place):
    async with place.connect() as client:
        number = client.ask("/upload", "POST", ends=False)
        left = 2**21
        while left:
            room = client.h2.local_flow_control_window(number)
            size = min(left, room, client.h2.max_outbound_frame_size)
            if not size:
                await client.read(lambda: client.h2.local_flow_control_window(number))
                continue
            client.h2.send_data(number, bytes(size), end_stream=size == left)
            client.flush()
            left -= size
        assert (await client.answer(number))[1].startswith(b"2097152,")
    [scope] = place.application.seen
    assert (b"transfer-encoding", b"chunked") in scope["headers"]  # it has no length


async def test_who_expects_100_continue_gets_it(place: Place):
    async with place.connect() as client:
        number = client.ask("/upload", "POST", ends=False, expect="100-continue")
        told: list[int] = []
        take = client._take

        def note(event: events.Event) -> None:
            if isinstance(event, events.InformationalResponseReceived):
                told.append(event.stream_id)
            take(event)

        client._take = note  # type: ignore[method-assign]
        await client.read(lambda: told)
        client.h2.send_data(number, b"abc", end_stream=True)
        client.flush()
        assert (await client.answer(number))[1] == b"3,3,3,"


async def test_a_call_whose_client_resets_it_hears_of_it(place: Place):
    async with place.connect() as client:
        number = client.ask("/leaves")
        await place.until_called()
        client.h2.reset_stream(number)
        client.flush()
        async with asyncio.timeout(5):
            await place.application.left.wait()


@pytest.mark.parametrize("target", ["/a b", "/a#b", "a", "/\u00e9", "http://a/"])
async def test_a_target_that_is_no_path_is_refused(place: Place, target: str):
    async with place.connect() as client:
        number = client.ask(target)
        await client.answer(number)
        assert number in client.resets
        assert (await client.answer(client.ask("/early")))[0][":status"] == "201"
    assert place.application.seen == []


async def test_http_1_and_the_old_upgrade_are_answered_on_the_same_port(place: Place):
    for options in (["--http1.1"], ["--http2"], ["--http2-prior-knowledge"]):
        process = await asyncio.create_subprocess_exec(
            "curl", "-sS", *options, "-w", " %{http_version}", f"http://127.0.0.1:{place.port}/e",
            stdout=subprocess.PIPE,
        )  # fmt: skip
        told, _ = await process.communicate()
        assert told == (b"0,0,0, 2" if "prior" in options[0] else b"0,0,0, 1.1")


OFFER = b"Connection: %b\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"


@pytest.mark.parametrize("path", [b"/early", b"/upload"])
@pytest.mark.parametrize(
    ("framing", "body"),
    [
        (b"Content-Length: 3\r\n", b"abc"),
        (b"Transfer-Encoding: chunked\r\n", b"3\r\nabc\r\n0\r\n\r\n"),
    ],
)
@pytest.mark.parametrize("cut", [0, 20, 130, -4, -1])
async def test_what_offers_an_upgrade_loses_no_body(
    place: Place, path: bytes, framing: bytes, body: bytes, cut: int
):
    """As JDK's HttpClient posts to http://, which offers h2c each time."""
    head = b"POST %b HTTP/1.1\r\nHost: a\r\n" % path + framing
    offer = OFFER % b"Upgrade, HTTP2-Settings"
    last = head + b"Connection: close\r\n\r\n" + body
    sent = (head + offer + b"\r\n" + body) * 2
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    writer.write(sent[:cut])
    await asyncio.sleep(0.05)
    writer.write(sent[cut:] + last)
    async with asyncio.timeout(10):
        received = await reader.read()
    writer.close()
    early, by_asgi = received.count(b"POST /early a abc"), received.count(b"2\r\n3,\r\n" * 3)
    assert early + by_asgi == received.count(b"HTTP/1.1 2") == 3
    assert early >= (path == b"/early")  # what comes in two reads, or behind it, goes by ASGI
    assert not any(b"upgrade" in dict(scope["headers"]) for scope in place.application.seen)


async def test_uvicorns_own_tls_negotiates_http_2(tmp_path: Path):
    pair = Authority(tmp_path).pair("server")
    config = uvicorn.Config(
        Application(), port=0, log_level="critical", lifespan="off", http=ProblemProtocol,
        ssl_certfile=pair.cert, ssl_keyfile=pair.key,
    )  # fmt: skip
    async with serving(config) as server:
        url = f"https://localhost:{server.servers[0].sockets[0].getsockname()[1]}/"
        for options, version in (("--http2", b"2"), ("--http1.1", b"1.1")):
            process = await asyncio.create_subprocess_exec(
                "curl", "-sS", "--cacert", str(pair.ca), options, "-w", " %{http_version}", url,
                stdout=subprocess.PIPE,
            )  # fmt: skip
            assert (await process.communicate())[0] == b"0,0,0, " + version


async def test_streams_that_are_reset_at_once_end_the_connection(place: Place):
    """Rapid reset (CVE-2023-44487): calls that nobody waits for are few."""
    async with place.connect() as client:
        for _ in range(2_000):
            client.h2.reset_stream(client.ask("/waits"), ErrorCodes.CANCEL)
            client.flush()
            await asyncio.sleep(0)
            if client.writer.transport.is_closing():
                break
        await client.read_to_the_end()
        assert client.goaway is None or client.goaway.error_code == ErrorCodes.ENHANCE_YOUR_CALM
    assert place.application.calls <= http2.MAX_CALLS


@pytest.mark.parametrize("frame", [PingFrame(0, b"12345678"), SettingsFrame(0)])
async def test_frames_that_bring_nothing_end_the_connection(place: Place, frame: Any):
    async with place.connect() as client:
        client.writer.write(frame.serialize() * (http2.CREDIT + 10))
        await client.read_to_the_end()
        assert client.goaway is not None
        assert client.goaway.error_code == ErrorCodes.ENHANCE_YOUR_CALM


@pytest.mark.parametrize("size", [100, 4_000])
async def test_headers_without_end_end_the_connection(place: Place, size: int):
    """CONTINUATION frames (CVE-2024-27316): they are few, and what they hold is bounded."""
    async with place.connect() as client:
        client.flush()
        pairs = [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "a")]
        block = Encoder().encode(pairs)
        frames: list[Frame] = [HeadersFrame(1, block, flags=["END_STREAM"])]
        frames += [ContinuationFrame(1, b"\0\1a" + bytes([127]) * size) for _ in range(1_000)]
        client.writer.write(b"".join(frame.serialize() for frame in frames))
        await client.read_to_the_end()
    assert place.application.seen == []
    async with place.connect() as client:
        assert (await client.answer(client.ask("/early")))[0][":status"] == "201"


async def test_more_than_64_kib_of_headers_are_refused(place: Place):
    async with place.connect() as client:
        headers = {f"x-{number}": "y" * 4_000 for number in range(20)}
        client.ask("/early", ends=True, **headers)
        await client.read_to_the_end()
        assert client.goaway is not None
    assert place.application.seen == []


async def test_a_client_that_takes_nothing_gets_no_further_calls(place: Place):
    async with place.connect(INITIAL_WINDOW_SIZE=0) as client:
        held = [client.ask("/big") for _ in range(50)]
        await client.read(lambda: len(client.heads) >= 3)
        await asyncio.sleep(0.2)
        assert client.ask("/early")
        await asyncio.sleep(0.2)
        connection = next(iter(place.server.server_state.connections))
        assert isinstance(connection, http2.Http2Connection)
        assert connection.held <= len(held) * len(BIG)
        assert connection.is_full


async def test_a_server_that_ends_finishes_its_calls(place: Place):
    async with place.connect() as client:
        waiting = client.ask("/waits")
        await place.until_called()
        place.server.should_exit = True
        await asyncio.sleep(0.3)
        late = client.ask("/early")
        await client.read(lambda: late in client.resets)
        assert client.resets == {late: ErrorCodes.REFUSED_STREAM}  # safe to be sent elsewhere
        place.application.released.set()
        await client.read_to_the_end()
        assert client.bodies[waiting] == b"0,0,0,"
        assert client.goaway is not None
        assert client.goaway.error_code == ErrorCodes.NO_ERROR


async def test_an_idle_connection_ends(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kernel.http_protocol.KEEP_ALIVE_S", 0.2)
    place.server.config.timeout_keep_alive = 0
    async with place.connect() as client:
        assert (await client.answer(client.ask("/early")))[0][":status"] == "201"
        await client.read_to_the_end()
        assert client.goaway is not None
        assert client.goaway.error_code == ErrorCodes.NO_ERROR
