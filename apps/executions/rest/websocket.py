"""The live records of a run over a WebSocket: the frames of the SSE streams as messages.

(reference: control-plane 12)
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from typing import ClassVar, Final

from django.http import HttpRequest

from apps.accounts.api import Principal
from apps.executions import api
from apps.executions.rest.consumer import StreamConsumer
from apps.executions.rest.parameters import texts
from apps.executions.rest.streams import event_frames, log_frames
from apps.http.rest import refuse_unknown_parameters
from apps.streams import api as streams

_NAMES: Final = ("events", "logs")
_KNOWN: Final = {"sinceEvents", "sinceLogs", "source", "token"}


class RunConsumer(StreamConsumer):
    """Sends the events and log lines of one run; accepts no messages."""

    route: ClassVar[str] = "/ws/executions/{run}"

    def admit(self, request: HttpRequest, principal: Principal) -> AsyncGenerator[bytes]:
        query = request.GET
        refuse_unknown_parameters(query, _KNOWN)
        run_id = self.scope["url_route"]["kwargs"]["executionId"]
        api.get_execution(principal, run_id)
        after = [
            streams.resume_after(since=query.get(name), last_event_id=None)
            for name in ("sinceEvents", "sinceLogs")
        ]
        self._messages, self._ended = Messages(), 0
        return streams.merge(
            [
                event_frames(run_id, after[0]),
                log_frames(run_id, after[1], texts(query, "source")),
            ]
        )

    async def send_piece(self, piece: bytes) -> None:
        for message in self._messages.of(piece):
            await self.send(text_data=message)
            self._ended += message.startswith('{"type":"end"')

    async def is_complete(self) -> bool:
        return self._ended == len(_NAMES)


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
            lines = [line for line in frame.split("\n") if line and line[0] != ":"]
            fields = {name: value for name, _, value in (line.partition(": ") for line in lines)}
            kind = fields.get("event", "record")
            if kind == "stream":
                self._stream = json.dumps(_NAMES[int(fields["data"])])
            elif fields and kind != "over":
                yield f'{{"type":"{kind}","stream":{self._stream},"data":{fields["data"]}}}'
