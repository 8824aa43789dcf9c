"""The live records of a run over a WebSocket: the frames of the SSE streams as messages.

(reference: control-plane 12)
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from functools import partial
from io import BytesIO
from typing import Any, Final

from asgiref.sync import ThreadSensitiveContext
from channels.generic.websocket import AsyncWebsocketConsumer
from django.core.handlers.asgi import ASGIRequest
from django.http import QueryDict

from apps.accounts.api import (
    Forbidden,
    Principal,
    attach_session,
    authenticate_stream,
    recheck,
)
from apps.executions import api
from apps.executions.rest.parameters import texts
from apps.executions.rest.streams import event_frames, log_frames, on_request_thread
from apps.http.api import is_allowed_origin
from apps.http.rest import refuse_unknown_parameters
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
ERROR: Final = 1011
REFUSED: Final = 4000  # + the HTTP status of the problem
_NAMES: Final = ("events", "logs")
_KNOWN: Final = {"sinceEvents", "sinceLogs", "source", "token"}
_Opened = tuple[Principal, list[AsyncGenerator[bytes]]]


class RunConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """Sends the events and log lines of one run; accepts no messages."""

    async def connect(self) -> None:
        """Refuse a foreign origin in the handshake, anything else by a close code."""
        headers = {name.lower(): value for name, value in self.scope["headers"]}
        if b"origin" in headers and not is_allowed_origin(headers[b"origin"].decode("latin-1")):
            await self.close()
            return
        await self.accept()
        enter_request(RequestContext(request_id=str(ids.new_uuid()), route="/ws/executions/{run}"))
        try:
            if is_draining():
                await self.close(GOING_AWAY)
                return
            async with ThreadSensitiveContext():
                principal, opened = await on_request_thread(self._admitted)
            frames, self._release = await streams.guarded(
                streams.merge(opened),
                user_key=principal.key,
                recheck=partial(recheck, principal),
                stream="websocket",
            )
        except PlatformError as error:
            code = error.problem_code
            await self.close(REFUSED + PROBLEMS[code], code)
            return
        self._sending = asyncio.create_task(self._send_all(frames))

    def _admitted(self) -> _Opened:
        scope = {**self.scope, "type": "http", "method": "GET"}
        request = ASGIRequest(scope, BytesIO())
        attach_session(request)
        principal = authenticate_stream(request, request.path)
        query: QueryDict = request.GET
        is_by_cookie = principal.session_hash and "token" not in query
        if is_by_cookie and "Origin" not in request.headers:
            raise Forbidden("the session cookie needs an Origin", code="origin_not_allowed")
        refuse_unknown_parameters(query, _KNOWN)
        run_id = self.scope["url_route"]["kwargs"]["executionId"]
        api.get_execution(principal, run_id)
        after = [
            streams.resume_after(since=query.get(name), last_event_id=None)
            for name in ("sinceEvents", "sinceLogs")
        ]
        return principal, [
            event_frames(run_id, after[0]),
            log_frames(run_id, after[1], texts(query, "source")),
        ]

    async def _send_all(self, frames: AsyncGenerator[bytes]) -> None:
        """Send until the streams are over; a slow client delays only itself."""
        messages, ended = Messages(), 0
        try:
            async with aclosing(frames):
                async for piece in frames:
                    for message in messages.of(piece):
                        await self.send(text_data=message)
                        ended += message.startswith('{"type":"end"')
        except OSError:  # the client has gone
            return
        except Exception:
            logger.exception("a stream of records failed")
            await self.close(ERROR)
            return
        if ended == len(_NAMES):
            await self.close(NORMAL)
        else:
            await self.close(GOING_AWAY if is_draining() else REFUSED + 401)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        await self.close(NO_INPUT)

    async def disconnect(self, code: int) -> None:
        if sending := getattr(self, "_sending", None):
            sending.cancel()
            self._release()


class NoSuchSocket(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """Refuses the handshake for a path without a route."""

    async def connect(self) -> None:
        await self.close()


class Messages:
    """Turns the frames of a shared stream into messages."""

    def __init__(self) -> None:
        self._stream = ""

    def of(self, piece: bytes) -> Iterator[str]:
        """Yield one JSON text for each frame that a client needs."""
        for frame in piece.decode().split("\n\n"):
            if frame == ": ping":
                yield '{"type":"ping"}'
                continue
            fields: dict[str, Any] = dict(
                line.split(": ", 1) for line in frame.split("\n") if line and line[0] != ":"
            )
            kind = fields.get("event", "record")
            if kind == "stream":
                self._stream = json.dumps(_NAMES[int(fields["data"])])
            elif fields and kind != "over":
                yield f'{{"type":"{kind}","stream":{self._stream},"data":{fields["data"]}}}'
