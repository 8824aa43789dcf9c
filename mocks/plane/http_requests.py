"""A request to a mock as ASGI brings it: its headers, query and body, without Partita's secrets."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote_plus

from kernel.errors import PlatformError
from kernel.prepared_answers import EXTENSION
from mocks.journal.entries import TAG_HEADER

Scope = Mapping[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
MAX_BODY_BYTES: Final = 10 * 2**20
# So long may a body take as a whole, as at the gateway of webhooks. A limit between two of its
# bytes would let a sender of one byte now and then hold its connection for ever.
BODY_TIMEOUT_S: Final = 30.0
MAX_QUERY_FIELDS: Final = 1_000
SECRET_HEADER: Final = b"x-partita-mock-secret"
_GIVEN_ID: Final = re.compile(rb"[A-Za-z0-9._/-]{1,128}")
_NOT_RANDOM: Final = 0xF << 76 | 0b11 << 62  # the bits of a UUID that say its version and variant
_UUID_4: Final = 4 << 76 | 0b10 << 62
_LONGEST_LENGTH: Final = 18  # digits
_JOINED_BY: Final = {b"cookie": b"; "}


class BodyTooLarge(PlatformError):
    code = "payload_too_large"


class BodyTooSlow(PlatformError):
    """The body has not arrived in time; the connection ends after the answer."""

    code = "request_timeout"


class ClientLeft(Exception):
    """The client has closed the connection: nobody waits for an answer."""


class RequestHeaders(Mapping[str, str]):
    """The headers by lower-case name, decoded when they are asked for.

    Values of one name are joined. The headers of the shared secret and of the tag, which change no
    answer, and Partita's own cookies are not there.
    """

    __slots__ = ("_raw",)

    def __init__(self, headers: list[tuple[bytes, bytes]], own_cookies: frozenset[str]) -> None:
        raw = dict(headers)
        if len(raw) != len(headers):
            raw = _join_headers(headers)
        raw.pop(SECRET_HEADER, None)
        raw.pop(TAG_HEADER, None)
        if b"cookie" in raw:
            cookies = foreign_cookies(raw.pop(b"cookie"), own_cookies)
            if cookies:
                raw[b"cookie"] = cookies
        self._raw = raw

    def __getitem__(self, name: str) -> str:
        return self._raw[name.encode("latin-1", "replace")].decode("latin-1")

    def get(self, name: str, default: Any = None) -> Any:
        found = self._raw.get(name.encode("latin-1", "replace"))
        return default if found is None else found.decode("latin-1")

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.encode("latin-1", "replace") in self._raw

    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self._raw)

    def __len__(self) -> int:
        return len(self._raw)


def _join_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    raw: dict[bytes, bytes] = {}
    for name, value in headers:
        raw[name] = raw[name] + _JOINED_BY.get(name, b", ") + value if name in raw else value
    return raw


def foreign_cookies(value: bytes, own: frozenset[str]) -> bytes:
    """Return a Cookie header without Partita's own cookies."""
    kept = [
        each
        for part in value.split(b";")
        if (each := part.strip()) and each.partition(b"=")[0].strip().decode("latin-1") not in own
    ]
    return b"; ".join(kept)


def noted_headers(
    headers: list[tuple[bytes, bytes]], given: Mapping[bytes, bytes], own_cookies: frozenset[str]
) -> list[tuple[bytes, bytes]]:
    """Return the headers that the journal may keep."""
    if SECRET_HEADER not in given and b"cookie" not in given:
        return headers
    kept = [pair for pair in headers if pair[0] not in (SECRET_HEADER, b"cookie")]
    if cookies := foreign_cookies(given.get(b"cookie", b""), own_cookies):
        kept.append((b"cookie", cookies))
    return kept


def parse_query(raw: bytes) -> dict[str, str]:
    """Parse a query to the first value of each name; at most 1,000 fields are read."""
    if not raw:
        return {}
    fields: dict[str, str] = {}
    for part in raw.decode("latin-1").split("&", MAX_QUERY_FIELDS)[:MAX_QUERY_FIELDS]:
        name, _, value = part.partition("=")
        if "%" in part or "+" in part:
            name, value = unquote_plus(name), unquote_plus(value)
        if part and name not in fields:
            fields[name] = value
    return fields


def request_id_of(given: Mapping[bytes, bytes]) -> bytes:
    """Return X-Request-Id where it is well formed, else a new UUIDv4."""
    found = given.get(b"x-request-id")
    if found is not None and _GIVEN_ID.fullmatch(found):
        return found
    text = f"{random.getrandbits(128) & ~_NOT_RANDOM | _UUID_4:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}".encode()


def has_body(given: Mapping[bytes, bytes]) -> bool:
    return b"content-length" in given or b"transfer-encoding" in given


def has_usual_body(given: Mapping[bytes, bytes]) -> bool:
    """Return whether there is no body, or one that says its length, which is allowed."""
    length = given.get(b"content-length")
    if length is None:
        return b"transfer-encoding" not in given
    return length.isdigit() and len(length) <= len(str(MAX_BODY_BYTES)) - 1


async def read_body(scope: Scope, given: Mapping[bytes, bytes], receive: Receive) -> bytes:
    """Return the body; raise BodyTooLarge as soon as it is known, BodyTooSlow and ClientLeft.

    What still arrives of a refused body is dropped by the server.
    """
    if not has_body(given):
        return b""
    length = given.get(b"content-length", b"0")
    if length.isdigit() and (len(length) > _LONGEST_LENGTH or int(length) > MAX_BODY_BYTES):
        raise too_large()
    is_body_here = scope.get("extensions", {}).get(EXTENSION, {}).get("is_body_here")
    if is_body_here is not None and is_body_here():
        return await _receive_body(receive)  # nothing to wait for: setting a timer takes time
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await _receive_body(receive)
    except TimeoutError:
        raise BodyTooSlow(f"the request body has not arrived within {BODY_TIMEOUT_S:g} s") from None


async def _receive_body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    if (
        message["type"] == "http.request"
        and not message.get("more_body")
        and (len(body) <= MAX_BODY_BYTES)
    ):
        return body
    return await _rest_of_body(message, receive)


async def _rest_of_body(message: Message, receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        if message["type"] == "http.disconnect":
            raise ClientLeft
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise too_large()
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()


def too_large() -> BodyTooLarge:
    return BodyTooLarge(f"the request body is larger than {MAX_BODY_BYTES} bytes")


async def wait_connected(seconds: float, receive: Receive) -> None:
    """Wait so long; raise ClientLeft if the client closes the connection before."""
    try:
        async with asyncio.timeout(seconds):
            while (await receive())["type"] != "http.disconnect":
                continue
    except TimeoutError:
        return
    raise ClientLeft
