"""Many HTTP/1.1 requests to few checked addresses (`kernel.addresses`), with little work for each.

    connections = KeptConnections(policy)
    reply = await connections.request("GET", url, headers={}, limit=2**20)
    await connections.aclose()

For a short conversation: a name is resolved and checked once, and its connections, kept by scheme,
name and port, serve that name alone. No redirects, cookies, proxies or decompression. Bodies are
read up to a limit. It costs much less than httpx (decision 0034); where requests are few,
`kernel.pinned_http` is the one to use.

Errors are those of httpx: ConnectError, ConnectTimeout, ReadTimeout, RemoteProtocolError, …
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httptools
import httpx

from kernel.addresses import Address, AddressError, AddressPolicy, Resolver, resolve
from kernel.pinned_http import PORTS, default_trust, pin_host

CONNECT_S: Final = 3.0
READ_S: Final = 10.0  # for each piece that arrives
_MAX_ORIGINS: Final = 16
_MAX_HEAD: Final = 64 * 1024
_PIECE: Final = 64 * 1024
_FIRST_FINAL: Final = 200  # statuses below it announce another answer
_FIRST_REDIRECT: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """`headers` by lower-case name, repeated ones joined. `is_cut`: the body is beyond its limit.

    The body is empty then.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_cut: bool = False

    @property
    def is_success(self) -> bool:
        return _FIRST_FINAL <= self.status < _FIRST_REDIRECT


class KeptConnections:
    """`policies` has those of hosts, as URLs spell them, that have another one than the rest."""

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        policies: Mapping[str, AddressPolicy] | None = None,
        resolver: Resolver = resolve,
        trust: ssl.SSLContext | None = None,
        at_once: int = 8,
        read_s: float | None = None,
    ) -> None:
        self._policy = policy
        self._policies = policies or {}
        self._read_s = READ_S if read_s is None else read_s
        self._resolver = resolver
        self._trust = trust
        self._origins: dict[tuple[str, str, int], _Origin] = {}
        self._slots = asyncio.Semaphore(at_once)

    async def request(
        self, method: str, url: httpx.URL, *, headers: Mapping[str, str], body: bytes = b"",
        limit: int,
    ) -> Reply:  # fmt: skip
        """Send a request and read its answer; raise httpx.HTTPError."""
        head = _head(method, url, headers)
        async with self._slots:
            origin = self._origin(url)
            connection = origin.idle_connection() or await self._connect(origin)
            try:
                answer = await connection.request(head + body, method, limit)
            except BaseException:
                connection.abort()
                raise
            if answer.is_reusable:
                origin.idle.append(connection)
            else:
                connection.abort()
        return answer.reply()

    def _origin(self, url: httpx.URL) -> _Origin:
        key = (url.scheme, url.raw_host.decode("ascii"), url.port or PORTS[url.scheme])
        if key not in self._origins:
            if len(self._origins) == _MAX_ORIGINS:
                raise httpx.ConnectError("too many hosts in one conversation")
            self._origins[key] = _Origin(*key)
        return self._origins[key]

    async def _connect(self, origin: _Origin) -> _Connection:
        async with origin.lock:
            if origin.addresses is None:
                try:
                    policy = self._policies.get(origin.host, self._policy)
                    origin.addresses = await pin_host(
                        origin.host, origin.port, policy, self._resolver
                    )
                except AddressError as error:
                    raise httpx.ConnectError(str(error)) from error
        return await self._first_that_answers(origin, origin.addresses)

    async def _first_that_answers(
        self, origin: _Origin, addresses: tuple[Address, ...]
    ) -> _Connection:
        """Connect to an address, and stay with it."""
        failed: httpx.HTTPError | None = None
        for address in addresses:
            try:
                connection = await self._connection(origin, address)
            except httpx.ConnectError as error:
                failed = error
            except httpx.ConnectTimeout as error:
                failed = error
            else:
                origin.addresses = (address,)
                return connection
        raise failed or httpx.ConnectError("the host has no address")

    async def _connection(self, origin: _Origin, address: Address) -> _Connection:
        is_secure = origin.scheme == "https"
        try:
            async with asyncio.timeout(CONNECT_S):
                return _Connection(
                    *await asyncio.open_connection(
                        str(address),
                        origin.port,
                        ssl=(self._trust or default_trust()) if is_secure else None,
                        server_hostname=origin.host if is_secure else None,
                    ),
                    self._read_s,
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout("no connection in time") from error
        except (OSError, ssl.SSLError) as error:
            raise httpx.ConnectError("no connection") from error

    async def aclose(self) -> None:
        for origin in self._origins.values():
            for connection in origin.idle:
                connection.abort()
            origin.idle.clear()
        await asyncio.sleep(0)  # for the transports to end


class _Origin:
    """A scheme, name and port, with its connections and its checked addresses."""

    def __init__(self, scheme: str, host: str, port: int) -> None:
        self.scheme, self.host, self.port = scheme, host, port
        self.lock = asyncio.Lock()
        self.addresses: tuple[Address, ...] | None = None
        self.idle: list[_Connection] = []

    def idle_connection(self) -> _Connection | None:
        while self.idle:
            connection = self.idle.pop()
            if connection.is_open():
                return connection
            connection.abort()
        return None


class _Connection:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, read_s: float
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._read_s = read_s

    def is_open(self) -> bool:
        return not self._reader.at_eof() and not self._writer.is_closing()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def request(self, sent: bytes, method: str, limit: int) -> _ParsedAnswer:
        answer = _ParsedAnswer(method, limit)
        parser = httptools.HttpResponseParser(answer)
        answer.parser = parser
        try:
            self._writer.write(sent)
            async with asyncio.timeout(self._read_s):
                await self._writer.drain()
            while not answer.is_complete:
                async with asyncio.timeout(self._read_s):
                    piece = await self._reader.read(_PIECE)
                answer.take(piece)
        except TimeoutError as error:
            raise httpx.ReadTimeout("no answer in time") from error
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise httpx.RemoteProtocolError("not HTTP") from error
        except OSError as error:
            raise httpx.RemoteProtocolError("the connection broke") from error
        return answer


class _ParsedAnswer:
    """What the parser tells of one answer."""

    parser: Any

    def __init__(self, method: str, limit: int) -> None:
        self._method = method
        self._limit = limit
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._size = 0
        self._beside = 0  # bytes since the last of the body: head, chunk sizes, trailers
        self._has_head = self._is_cut = self._ended = self._keeps = False
        self._status = 0
        self._messages = 0
        self.is_complete = self.is_reusable = False

    def take(self, piece: bytes) -> None:
        if not piece:
            self._end_of_stream()
            return
        self._beside += len(piece)
        self.parser.feed_data(piece)
        if self._beside > _MAX_HEAD and not self._ended:
            raise httpx.RemoteProtocolError("the head or the trailer of the answer is too large")
        if self._has_head and self._status < _FIRST_FINAL:
            raise httpx.RemoteProtocolError("an answer that announces another")
        self.is_complete = self._ended or self._is_cut
        self.is_reusable = self._ended and not self._is_cut and self._messages == 1 and self._keeps

    def _end_of_stream(self) -> None:
        """Accept the end of the connection only where nothing else ends the body."""
        framed = self._headers.keys() & {"content-length", "transfer-encoding"}
        if not self._has_head or framed:
            raise httpx.RemoteProtocolError("the connection ended within an answer")
        self.is_complete = True

    def on_message_begin(self) -> None:
        self._messages += 1

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        if self._messages > 1:
            return
        self._has_head = True
        self._status = self.parser.get_status_code()
        if self._method == "HEAD":
            self._end()
        length = self._headers.get("content-length", "")
        self._is_cut = not self._ended and length.isdecimal() and int(length) > self._limit

    def on_body(self, piece: bytes) -> None:
        self._beside = 0
        if self._messages > 1 or self._is_cut or self._method == "HEAD":
            return
        self._size += len(piece)
        self._is_cut = self._size > self._limit
        self._body.append(piece)

    def on_message_complete(self) -> None:
        self._end()

    def _end(self) -> None:
        """Note the end while the parser still knows whether the connection goes on."""
        self._keeps = self._keeps or (not self._ended and bool(self.parser.should_keep_alive()))
        self._ended = True

    def reply(self) -> Reply:
        body = b"" if self._is_cut else b"".join(self._body)
        return Reply(status=self._status, headers=self._headers, body=body, is_cut=self._is_cut)


def _head(method: str, url: httpx.URL, headers: Mapping[str, str]) -> bytes:
    """Return the head of a request; raise httpx.LocalProtocolError for a text with a line break."""
    lines = [
        f"{method} {url.raw_path.decode('ascii')} HTTP/1.1",
        f"Host: {url.netloc.decode('ascii')}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    if any("\r" in line or "\n" in line or "\0" in line for line in lines):
        raise httpx.LocalProtocolError("a header holds a line break")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
