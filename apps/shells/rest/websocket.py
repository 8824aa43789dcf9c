"""A shell session over a WebSocket: what the program writes, and what the person types.

From the server: binary messages, 8 bytes with the number of the last record in them (big endian),
then output; and JSON texts (`session`, `gap`, `ping`, `end`). From the client: binary messages are
typed, the text `{"type":"resize","columns":80,"rows":24}` sets the size.

(reference: control-plane 11.7)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, ClassVar, Final, TypeVar

from django.db import DatabaseError
from django.http import HttpRequest

from apps.accounts.api import Principal
from apps.executions.rest import TOO_BIG, StreamConsumer
from apps.http.rest import InvalidParameter, refuse_unknown_parameters
from apps.shells import api
from apps.shells.domain.documents import ShellDocument
from apps.shells.domain.records import TerminalSize, output_bytes, terminal_size
from apps.shells.domain.states import ShellState
from apps.shells.services.clients import (
    JoinedShell,
    count_untaken,
    describe_shell,
    join_shell,
    keep_attached,
    type_into,
)
from apps.streams import api as streams
from kernel.errors import PlatformError

T = TypeVar("T")
_BEAT_S: Final = 5.0  # a client is there
_OPENING_S: Final = 0.25  # between two looks at a session that opens
_READ_STEP: Final = 256 * 2**10  # bytes, then the runner is told that they were read
_MOST_UNTAKEN: Final = 64  # messages of the input that wait for the runner
_WAIT_S: Final = 0.05
_MOST_DIGITS: Final = 18
_store = ThreadPoolExecutor(2, thread_name_prefix="shells")


class ShellConsumer(StreamConsumer):
    """Passes bytes between one client and one session, which goes on without the client."""

    route: ClassVar[str] = "/ws/shells/{shell}"
    stream: ClassVar[str] = "shell"
    _keeping: asyncio.Task[None] | None = None
    _is_joined = False  # a client that is refused may send before it knows
    _ended = False

    def admit(self, request: HttpRequest, principal: Principal) -> AsyncGenerator[bytes]:
        refuse_unknown_parameters(request.GET, {"after", "token"})
        self._read_id = _whole_number(request.GET.get("after", "0"))
        self._principal = principal
        self._shell = join_shell(principal, self.scope["url_route"]["kwargs"]["shellId"])
        self._is_joined = True
        self._unread, self._told_at = 0, 0.0
        self._pace = api.Pace()
        topic = self._shell.topic
        return streams.follow(topic, after=self._read_id, member="output", envelope=_without_fields)

    async def send_piece(self, piece: bytes) -> None:
        if self._keeping is None:
            await self._send_session(self._shell.document)
            self._keeping = asyncio.create_task(self._keep())
        output, size = bytearray(), 0
        for kind, fields in _frames(piece):
            if kind == "record":
                data = output_bytes(b'"' + fields["output"].encode() + b'"')
                if output and len(output) + len(data) > api.MOST_BYTES:
                    await self._send_output(output)
                    output.clear()
                output += data
                size += len(data)
                self._read_id = fields["id"]
                continue
            if output:
                await self._send_output(output)
                output.clear()
            await self._send_other(kind, fields)
        if output:
            await self._send_output(output)
        if size:
            await self._note_read(size)

    async def _send_output(self, output: bytearray) -> None:
        """Send output; that the session is open, and its notice, is sent before the first of it."""
        if self._shell.document["state"] == ShellState.OPENING:
            await self._look_whether_open()
        await self.send(bytes_data=self._read_id.to_bytes(8, "big") + bytes(output))

    async def _send_other(self, kind: str, fields: Mapping[str, Any]) -> None:
        if kind == "end":
            self._ended = True
            document = await self._on_store(lambda: describe_shell(self._principal, self._shell.pk))
            await self._send_json({"type": "end", "session": document})
        else:
            await self._send_json({"type": kind, **fields})

    async def _note_read(self, size: int) -> None:
        self._pace.note_activity(asyncio.get_running_loop().time())
        self._unread += size
        if self._unread >= _READ_STEP:
            await self._beat()

    async def is_complete(self) -> bool:
        return self._ended

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Type, or set the size; a client that types faster than the program reads waits."""
        if not self._is_joined:
            return
        typed = bytes_data if bytes_data is not None else _size_in(text_data or "")
        if typed is None:
            await self.close(1008, "bad_message")
        elif isinstance(typed, bytes) and len(typed) > api.MOST_BYTES:
            await self.close(TOO_BIG, "message_too_big")
        elif typed:
            await self._type(typed)

    async def _type(self, typed: bytes | TerminalSize) -> None:
        self._pace.note_activity(asyncio.get_running_loop().time())
        pk = self._shell.pk
        last = await self._on_store(lambda: type_into(pk, [typed]))
        if last % _MOST_UNTAKEN:
            return
        while await self._on_store(lambda: count_untaken(pk)) > _MOST_UNTAKEN:  # noqa: ASYNC110 - the runner takes it
            await asyncio.sleep(_WAIT_S)

    async def disconnect(self, code: int) -> None:
        if self._keeping:
            self._keeping.cancel()
        await super().disconnect(code)

    async def _keep(self) -> None:
        """Say that the client is there, and look for output where no nudge of others arrives."""
        loop = asyncio.get_running_loop()
        self._pace.note_activity(loop.time())
        is_nudged = streams.has_nudges_of_others()
        while not self._ended:
            is_opening = self._shell.document["state"] == ShellState.OPENING
            if is_opening:
                await self._look_whether_open()
            if loop.time() - self._told_at >= _BEAT_S:
                await self._beat()
            if not is_nudged:
                streams.wake(self._shell.topic)
            pause_s = _BEAT_S if is_nudged else self._pace.pause_s(loop.time())
            await asyncio.sleep(_OPENING_S if is_opening else pause_s)

    async def _look_whether_open(self) -> None:
        with suppress(DatabaseError, PlatformError):  # the next look is soon
            document = await self._on_store(lambda: describe_shell(self._principal, self._shell.pk))
            if document["state"] != self._shell.document["state"]:
                self._shell = JoinedShell(
                    pk=self._shell.pk, topic=self._shell.topic, document=document
                )
                await self._send_session(document)

    async def _beat(self) -> None:
        self._told_at, self._unread = asyncio.get_running_loop().time(), 0
        pk, read_id = self._shell.pk, self._read_id
        with suppress(DatabaseError, PlatformError):  # the store is away: the next beat is soon
            await self._on_store(lambda: keep_attached(pk, read_id=read_id))

    async def _send_session(self, document: ShellDocument) -> None:
        await self._send_json({"type": "session", "session": document})

    async def _send_json(self, message: Mapping[str, Any]) -> None:
        await self.send(text_data=json.dumps(message, separators=(",", ":"), ensure_ascii=False))

    async def _on_store(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(_store, _on_connection, work)


def _on_connection(work: Callable[[], T]) -> T:
    streams.release_stale_connection()
    return work()


def _without_fields(_topic: str) -> Mapping[str, Any]:
    return {}


def _frames(piece: bytes) -> list[tuple[str, Mapping[str, Any]]]:
    """Return (kind, data) of the frames of a piece of a stream, as far as clients need them."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    for frame in piece.decode().split("\n\n"):
        if frame == ": ping":
            found.append(("ping", {}))
            continue
        lines = (line.partition(": ") for line in frame.split("\n") if line and line[0] != ":")
        fields = {name: value for name, _, value in lines}
        if "data" in fields:
            found.append((fields.get("event", "record"), json.loads(fields["data"])))
    return found


def _size_in(text: str) -> TerminalSize | None:
    """Return the size that a message of a client sets; None if it is no such message."""
    try:
        message = json.loads(text)
        if message["type"] == "resize":
            return terminal_size(message["columns"], message["rows"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return None


def _whole_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise InvalidParameter("after must be a whole number: that of the last output received")
    return int(text)
