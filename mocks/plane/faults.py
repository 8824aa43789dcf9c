"""Answers that break on purpose: cut off, scrambled, slow in pieces, or none at all.

(reference: control-plane 18.2, step 6)
"""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING, Any, Final

from kernel.prepared_answers import EXTENSION, STATUS_LINES
from mocks.errors import FaultUnavailable
from mocks.plane import http_responses
from mocks.plane.http_requests import wait_connected
from mocks.plane.http_responses import Headers
from surfaces.behaviors import MockFault

if TYPE_CHECKING:
    from mocks.plane.http_exchange import HttpExchange

_GARBAGE: Final = 64  # bytes
_NO_LINGER: Final = struct.pack("ii", 1, 0)  # closing sends RST instead of FIN


async def send_fault(
    exchange: HttpExchange, fault: MockFault, answer: tuple[int, Headers, bytes]
) -> None:
    """Send what a fault leaves of an answer; `exchange.status` stays 0 where no status goes out.

    Raise ClientLeft, and FaultUnavailable on a server that gives no connection away.
    """
    if fault.kind == "dribble":
        await _dribble(exchange, fault, answer)
        return
    if fault.kind == "half" and exchange.scope.get("http_version") == "2":
        await _begin_half(exchange, answer)
    take = exchange.scope.get("extensions", {}).get(EXTENSION, {}).get("take_connection")
    if take is None:
        raise FaultUnavailable(f"the fault {fault.kind} needs Partita's own server")
    transport = take()
    if fault.kind == "reset":
        _reset(transport)
        return
    if fault.kind == "garbage":
        transport.write(b"\0" + os.urandom(_GARBAGE - 1))
    elif fault.kind == "half" and not exchange.status:
        status, headers, body = answer
        head = STATUS_LINES[status] + http_responses.lines(headers) + b"\r\n"
        exchange.status = status
        transport.write(head + body[: len(body) // 2] if body else head[: len(head) // 2])
    transport.close()


async def _begin_half(exchange: HttpExchange, answer: tuple[int, Headers, bytes]) -> None:
    """Send head and half a body as frames of HTTP/2, after which the connection ends."""
    exchange.status, headers, body = answer
    head = {"type": "http.response.start", "status": exchange.status, "headers": headers}
    await exchange.send(head)
    half = body[: len(body) // 2]
    await exchange.send({"type": "http.response.body", "body": half, "more_body": True})


def _reset(transport: Any) -> None:
    """Close a connection with RST."""
    own = transport.get_extra_info("socket")
    if own is not None:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()


async def _dribble(
    exchange: HttpExchange, fault: MockFault, answer: tuple[int, Headers, bytes]
) -> None:
    """Send the head, and the body in pieces with the same wait before each."""
    status, headers, body = answer
    exchange.status = status
    await exchange.send({"type": "http.response.start", "status": status, "headers": headers})
    size = max(1, -(-len(body) // fault.chunks))
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    for piece in pieces:
        await wait_connected(fault.over_ms / 1000 / len(pieces), exchange.receive)
        message = {"type": "http.response.body", "body": piece, "more_body": True}
        await exchange.send(message)
    await exchange.send({"type": "http.response.body", "body": b""})
