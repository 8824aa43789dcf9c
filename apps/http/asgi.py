"""The ASGI edge: bodies read up to their limit, and the life cycle of the server."""

from __future__ import annotations

import asyncio
import logging
import signal
import tempfile
import threading
from collections.abc import Awaitable, Callable, Mapping
from types import FrameType
from typing import IO, Any, Final
from urllib.parse import quote

from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler

from apps.http import conf
from apps.http.json_body import MAX_BODY_BYTES
from apps.http.middleware.on_the_loop import REPLACED
from apps.operations.api import LifespanPart, begin_drain, is_draining, lifespan_parts

logger = logging.getLogger("partita.system")
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

DRAIN_LIMIT_S: Final = 10.0
DRAIN_NOTICE_S: Final = 1.0  # so long at least `/readyz` says 503 before the listener closes
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_ASCII: Final = "".join(map(chr, range(0x21, 0x7F)))
_IN_MEMORY_BYTES: Final = 1 << 20


class ControlPlaneHandler(ASGIHandler):
    """Django's handler, but a body beyond the limit is neither kept nor waited for.

    Such a request has `META["partita.too_large"]`, which the body-limit stage refuses; its rest
    is read and dropped while the answer goes out. A chunked body gets its length, without which
    Django and DRF take it for empty.
    """

    def load_middleware(self, is_async: bool = False) -> None:  # noqa: FBT001, FBT002 - Django's
        """Build the chain, with Django's own stages on the event loop."""
        listed = conf.middleware()
        with conf.replace_middleware([REPLACED.get(path, path) for path in listed]):
            super().load_middleware(is_async)

    async def read_body(self, receive: Receive) -> IO[bytes]:
        body = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 - closed by Django
        more = True
        while more and body.tell() <= MAX_BODY_BYTES:
            message = await receive()
            if message["type"] == "http.disconnect":
                body.close()
                raise RequestAborted
            body.write(message.get("body", b""))
            more = message.get("more_body", False)
        return body

    def create_request(self, scope: Any, body_file: IO[bytes]) -> Any:
        size = body_file.tell()
        body_file.seek(0)
        readable = {**scope, "query_string": quote(scope["query_string"], safe=_ASCII).encode()}
        request, refusal = super().create_request(readable, body_file)
        if request is not None:
            request.META["partita.too_large"] = size > MAX_BODY_BYTES
            request.META["CONTENT_LENGTH"] = str(size) if size else ""
        return request, refusal

    async def listen_for_disconnect(self, receive: Receive) -> None:
        """Drop what still arrives of a refused body."""
        message = await receive()
        while message["type"] == "http.request":
            message = await receive()

        async def last() -> Message:
            return message

        await super().listen_for_disconnect(last)


class Lifespan:
    """Starts the registered parts, drains them on SIGTERM or SIGINT, stops them at the end."""

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        await receive()
        started: list[LifespanPart] = []
        try:
            for name in lifespan_parts:
                part = lifespan_parts[name]()
                await part.start()
                started.append(part)
        except Exception as error:  # the edge: the server must hear of any failure
            logger.critical("the server cannot start", exc_info=error)
            await _stop(started)
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        drain_on_signals(started)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        begin_drain()
        await _stop(started)
        await send({"type": "lifespan.shutdown.complete"})


def drain_on_signals(parts: list[LifespanPart]) -> None:
    """Put draining before what the server does on SIGTERM and SIGINT; a second signal skips it.

    uvicorn closes its listener at once on a signal and tells the application last, so its own
    handlers are called only when the parts have drained. Does nothing off the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        _drain_first(number, loop, parts)


def _drain_first(
    number: signal.Signals, loop: asyncio.AbstractEventLoop, parts: list[LifespanPart]
) -> None:
    server_handler = signal.getsignal(number)
    if not callable(server_handler):
        return

    def finish() -> None:
        server_handler(number, None)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if is_draining():
            finish()
            return
        begin_drain()
        loop.call_soon_threadsafe(lambda: _running.add(loop.create_task(_drain(parts, finish))))

    signal.signal(number, on_signal)


_running: Final[set[asyncio.Task[None]]] = set()  # the loop itself holds tasks only weakly


async def _drain(parts: list[LifespanPart], finish: Callable[[], None]) -> None:
    """Every part finishes up, for DRAIN_LIMIT_S at most; then the server goes on ending."""
    work = [asyncio.create_task(part.drain()) for part in parts]
    notice = asyncio.create_task(asyncio.sleep(DRAIN_NOTICE_S))
    done, late = await asyncio.wait([*work, notice], timeout=DRAIN_LIMIT_S)
    for task in late:
        task.cancel()
    for task in done:
        if error := task.exception():
            logger.error("a part failed to drain", exc_info=error)
    finish()


async def _stop(started: list[LifespanPart]) -> None:
    for part in reversed(started):
        try:
            await asyncio.wait_for(part.stop(), DRAIN_LIMIT_S)
        except Exception:  # the edge: the other parts must still be stopped
            logger.exception("%s failed to stop", type(part).__name__)
