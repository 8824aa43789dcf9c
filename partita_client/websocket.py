"""A WebSocket to the server of a transport: the handshake, and messages that never block.

RFC 6455 without extensions. The caller waits with `select`, for `fileno()` and `wants_write`.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Final

from partita_client.connection_failures import explain_failure
from partita_client.errors import NoConnection, NotPartita
from partita_client.transport import HttpTransport, Query, UpgradedConnection
from partita_client.websocket_frames import (
    NORMAL,
    BrokenFrame,
    Opcode,
    SocketFrameReader,
    SocketMessage,
    encode_frame,
)

MESSAGE_MAX: Final = 2**20
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_READ_STEP: Final = 64 * 2**10
_MOST_STEPS: Final = 16  # then others have their turn
_OPENED_WITHIN_S: Final = 15.0
_LATER: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class SocketClosed(NoConnection):
    """The server closed the WebSocket in good order."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the server closed the connection ({code} {reason}".rstrip() + ")")
        self.code, self.reason = code, reason


class WebSocket:
    """An open connection; pings of the server are answered while it is read."""

    def __init__(self, upgraded: UpgradedConnection, transport: HttpTransport) -> None:
        self._channel = upgraded.channel
        self._address = transport.address
        self._frames = SocketFrameReader(MESSAGE_MAX)
        self._outgoing = bytearray()
        self._end: NoConnection | None = None
        self._channel.setblocking(False)  # noqa: FBT003 - of the library
        self._came_early = _take_buffered(upgraded.reader)
        self.has_more = True  # something may be there without waiting

    def fileno(self) -> int:
        return self._channel.fileno()

    @property
    def wants_write(self) -> bool:
        """Whether something is left to send, for which the socket had no room."""
        return bool(self._outgoing)

    def send(self, opcode: Opcode, content: bytes) -> None:
        """Send a message; what has no room is left for the next `flush`. Raise NoConnection."""
        self._outgoing += encode_frame(opcode, content)
        self.flush()

    def flush(self) -> None:
        """Send what is left as far as there is room; raise NoConnection."""
        try:
            while self._outgoing:
                del self._outgoing[: self._channel.send(self._outgoing)]
        except _LATER:
            return
        except OSError as error:
            raise explain_failure(error, self._address) from None

    def receive(self) -> list[SocketMessage]:
        """Return the texts, binary messages and pongs that have come, without waiting.

        Raise SocketClosed or NoConnection once all that came before is returned, and NotPartita.
        """
        messages = list[SocketMessage]()
        self.has_more = True
        for _ in range(_MOST_STEPS):
            if (received := self._read()) is None:
                self.has_more = False
                break
            for message in self._frames_of(received):
                self._take(message, messages)
        if self._end is not None:
            if not messages:
                raise self._end
            self.has_more = True
        return messages

    def _read(self) -> bytes | None:
        """Return what has come, None if there is nothing; note the end."""
        if self._end is not None:
            return None
        received, self._came_early = self._came_early, b""
        try:
            received = received or self._channel.recv(_READ_STEP)
        except _LATER:
            return None
        except OSError as error:
            self._end = _as_cut(explain_failure(error, self._address))
        else:
            if not received:
                self._end = NoConnection(f"no connection to {self._address.url}: it was cut")
        return received or None

    def _frames_of(self, received: bytes) -> list[SocketMessage]:
        try:
            return self._frames.feed(received)
        except BrokenFrame as error:
            self.close(error.code)
            raise NotPartita(
                f"{self._address.url} broke the rules of WebSockets: {error}",
                advice="a proxy before it may change what passes; compare: partita version",
            ) from None

    def _take(self, message: SocketMessage, messages: list[SocketMessage]) -> None:
        """Answer a ping or a close, and keep any other message; nothing follows a close."""
        if self._end is not None:
            return
        if message.opcode == Opcode.PING:
            with suppress(NoConnection):  # what was sent before the cut is still read
                self.send(Opcode.PONG, message.content)
        elif message.opcode == Opcode.CLOSE:
            self.close(message.close_code if message.content else NORMAL)
            self._end = SocketClosed(message.close_code, message.close_reason)
        else:
            messages.append(message)

    def close(self, code: int = NORMAL) -> None:
        """Say that this is the end, as far as there is room for it."""
        with suppress(NoConnection, NotPartita):
            self.send(Opcode.CLOSE, code.to_bytes(2))


def _take_buffered(reader: IO[bytes]) -> bytes:
    """Return what http.client has read beyond the answer."""
    if not isinstance(reader, io.BufferedReader):
        return b""
    try:
        return reader.peek()
    except (OSError, ValueError):  # nothing is there, or the next read says what is wrong
        return b""


def _as_cut(error: NoConnection | NotPartita) -> NoConnection:
    return error if isinstance(error, NoConnection) else NoConnection(error.detail)


@contextmanager
def open_websocket(transport: HttpTransport, path: str, query: Query) -> Iterator[WebSocket]:
    """Yield an open WebSocket, closed at the end; raise ApiProblem, NoConnection, NotPartita."""
    key = base64.b64encode(os.urandom(16)).decode()
    headers = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
    }
    opened = transport.upgrade(path, query=query, headers=headers, timeout_s=_OPENED_WITHIN_S)
    with opened as upgraded:
        check_handshake(upgraded.headers, key, transport.address.url)
        websocket = WebSocket(upgraded, transport)
        yield websocket
        websocket.close()


def check_handshake(headers: Mapping[str, str], key: str, url: str) -> None:
    """Raise NotPartita for an answer that accepts something else than was asked for."""
    connection = [word.strip().lower() for word in headers.get("connection", "").split(",")]
    accept = base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()  # noqa: S324 - RFC 6455 says so
    if headers.get("upgrade", "").lower() != "websocket" or "upgrade" not in connection:
        wrong = "it does not upgrade to a WebSocket"
    elif headers.get("sec-websocket-accept") != accept:
        wrong = "its Sec-WebSocket-Accept does not belong to the key that was sent"
    elif "sec-websocket-extensions" in headers or "sec-websocket-protocol" in headers:
        wrong = "it uses an extension or a protocol that was not asked for"
    else:
        return
    raise NotPartita(
        f"the answer of {url} to a WebSocket handshake is wrong: {wrong}",
        advice="check the address, and what stands before the server: partita doctor",
    )
