"""The base of the WebSockets: who is let in, for how long, and how one is closed.

(reference: control-plane 12)
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from io import BytesIO
from typing import ClassVar, Final

from asgiref.sync import ThreadSensitiveContext
from channels.generic.websocket import AsyncWebsocketConsumer
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest

from apps.accounts.api import Forbidden, Principal, attach_session, authenticate_stream, recheck
from apps.executions.rest.streams import on_request_thread
from apps.http.api import is_allowed_origin
from apps.observability.api import RequestContext, enter_request
from apps.operations.api import is_draining
from apps.streams import api as streams
from kernel import ids
from kernel.errors import PlatformError
from kernel.problems import PROBLEMS

logger = logging.getLogger("partita.streams")
NORMAL: Final = 1000
GOING_AWAY: Final = 1001
NO_INPUT: Final = 1008
TOO_BIG: Final = 1009
ERROR: Final = 1011
REFUSED: Final = 4000  # + the HTTP status of the problem


class StreamConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """Sends the frames of a stream as messages, as long as the caller's credential is valid.

    `route` names it in logs and traces, `stream` in metrics.
    """

    route: ClassVar[str]
    stream: ClassVar[str] = "websocket"
    _sending: asyncio.Task[None] | None = None
    _release: Callable[[], None] | None = None

    @abstractmethod
    def admit(self, request: HttpRequest, principal: Principal) -> AsyncGenerator[bytes]:
        """Return the frames for an authenticated caller, on a thread; raise PlatformError."""

    @abstractmethod
    async def send_piece(self, piece: bytes) -> None:
        """Send the messages of a piece of the stream."""

    async def is_complete(self) -> bool:
        """Return whether the end of the frames was that of the subject: the client is done."""
        return True

    async def connect(self) -> None:
        """Refuse a foreign origin in the handshake, anything else by a close code."""
        headers = {name.lower(): value for name, value in self.scope["headers"]}
        if b"origin" in headers and not is_allowed_origin(headers[b"origin"].decode("latin-1")):
            await self.close()
            return
        await self.accept()
        enter_request(RequestContext(request_id=str(ids.new_uuid()), route=self.route))
        try:
            if is_draining():
                await self.close(GOING_AWAY)
                return
            async with ThreadSensitiveContext():
                principal, opened = await on_request_thread(self._admit)
            frames, self._release = await streams.guard_frames(
                opened,
                user_key=principal.key,
                recheck=partial(recheck, principal),
                stream=self.stream,
            )
        except PlatformError as error:
            code = error.problem_code
            await self.close(REFUSED + PROBLEMS[code], code)
            return
        self._sending = asyncio.create_task(self._send_all(frames))

    def _admit(self) -> tuple[Principal, AsyncGenerator[bytes]]:
        scope = {**self.scope, "type": "http", "method": "GET"}
        request = ASGIRequest(scope, BytesIO())
        attach_session(request)
        principal = authenticate_stream(request, request.path)
        is_by_cookie = principal.session_hash and "token" not in request.GET
        if is_by_cookie and "Origin" not in request.headers:
            raise Forbidden("the session cookie needs an Origin", code="origin_not_allowed")
        return principal, self.admit(request, principal)

    async def _send_all(self, frames: AsyncGenerator[bytes]) -> None:
        """Send until the streams are over; a slow client delays only itself."""
        try:
            async with aclosing(frames):
                async for piece in frames:
                    await self.send_piece(piece)
            is_complete = await self.is_complete()
        except OSError:  # the client has gone
            return
        except Exception:
            logger.exception("a stream of records failed")
            await self.close(ERROR)
            return
        if is_complete:
            await self.close(NORMAL)
        else:
            await self.close(GOING_AWAY if is_draining() else REFUSED + 401)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        await self.close(NO_INPUT)

    async def disconnect(self, code: int) -> None:
        if self._sending and self._release:
            self._sending.cancel()
            self._release()


class NoSuchSocket(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """Refuses the handshake for a path without a route."""

    async def connect(self) -> None:
        await self.close()
