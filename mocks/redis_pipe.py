"""Commands to Redis on one connection of an event loop: those of a turn are sent at once.

The library connects, authenticates and selects the database; what it does for a command costs
several times what Redis and the network take.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection, ConnectionPool

Word = str | int
_LATE_S: Final = 0.05  # between two looks, so that answers that are here already are read
_BULK, _INTEGER, _ERROR, _STATUS = b"$:-+"


class CommandRefused(Exception):
    """Redis answered with an error."""


class NoSuchScript(CommandRefused):
    """Redis has not seen the script, or has forgotten it."""


class RedisPipe:
    """Commands are in flight together; their answers come in order. For one event loop.

    `answer_s` is how long an answer may take: then the connection is given up.
    """

    def __init__(self, pool: ConnectionPool, *, answer_s: float) -> None:
        self._pool = pool
        self._answer_s = answer_s
        self._connecting = asyncio.Lock()
        self._wire: _Wire | None = None

    async def ask(self, *words: Word) -> Any:
        """Return the answer to a command: bytes, int or None; raise CommandRefused or OSError."""
        wire = self._wire
        if wire is None or wire.is_lost:
            wire = await self._connect()
        return await wire.send(words)

    async def _connect(self) -> _Wire:
        from redis import RedisError

        async with self._connecting:
            if self._wire is None or self._wire.is_lost:
                connection = self._pool.make_connection()  # type: ignore[no-untyped-call]
                try:
                    await connection.connect()
                except RedisError as error:
                    raise ConnectionError(str(error)) from error
                self._wire = _Wire(connection, self._answer_s)
            return self._wire

    def close(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.give_up(ConnectionError("the connection to Redis is closed"))


class _Wire(asyncio.Protocol):
    """A connection that works, taken over from the library."""

    def __init__(self, connection: AbstractConnection, answer_s: float) -> None:
        self.is_lost = False
        self._connection = connection  # closes its socket when nobody has it
        writer: Any = connection._writer  # noqa: SLF001 - it has no other way to its socket
        self._transport: asyncio.Transport = writer.transport
        self._answer_s = answer_s
        self._loop = asyncio.get_running_loop()
        self._sent: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._unsent: list[bytes] = []
        self._rest = b""
        self._watch: asyncio.TimerHandle | None = None
        self._is_late = False
        self._transport.set_protocol(self)

    def send(self, words: tuple[Word, ...]) -> asyncio.Future[Any]:
        """Send a command at the end of this turn of the loop; return its answer to come."""
        answer = self._loop.create_future()
        if self.is_lost:
            answer.set_exception(ConnectionError("Redis closed the connection"))
            return answer
        if not self._unsent:
            self._loop.call_soon(self._flush)
        if self._watch is None:
            self._watch = self._loop.call_later(self._answer_s / 4, self._look)
        self._sent.append((answer, self._loop.time()))
        self._unsent.append(_command(words))
        return answer

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if not self.is_lost:
            self._transport.write(b"".join(unsent))

    def _look(self) -> None:
        """Give up the connection if the oldest command has waited for too long.

        The second look is for a loop that was busy itself.
        """
        if not self._sent:
            self._watch = None
            return
        was_late = self._is_late
        self._is_late = self._loop.time() - self._sent[0][1] >= self._answer_s
        if self._is_late and was_late:
            self.give_up(TimeoutError("Redis did not answer"))
            return
        wait_s = _LATE_S if self._is_late else self._answer_s / 4
        self._watch = self._loop.call_later(wait_s, self._look)

    def data_received(self, data: bytes) -> None:
        try:
            self._rest = self._read_answers(self._rest + data if self._rest else data)
        except (ValueError, IndexError):  # of a server that is no Redis, or that nobody asked
            self.give_up(ConnectionError("what came is not an answer of Redis"))

    def _read_answers(self, data: bytes) -> bytes:
        """Hand out the answers that are whole, and return what is left; raise ValueError."""
        at = 0
        while (end := data.find(b"\r\n", at)) >= 0:
            kind, value = data[at], data[at + 1 : end]
            following = end + 2
            found: Any = value
            if kind == _BULK:
                size = int(value)
                following += size + 2 if size >= 0 else 0
                if following > len(data):
                    break
                found = data[end + 2 : following - 2] if size >= 0 else None
            elif kind == _INTEGER:
                found = int(value)
            elif kind == _ERROR:
                shown = value.decode(errors="replace")
                is_unknown = shown.startswith("NOSCRIPT")
                found = NoSuchScript(shown) if is_unknown else CommandRefused(shown)
            elif kind != _STATUS:
                raise ValueError(kind)
            at = following
            self._answer(found)
        return data[at:]

    def _answer(self, found: Any) -> None:
        answer, _ = self._sent.popleft()
        if answer.done():  # whoever asked has left
            return
        if isinstance(found, Exception):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def connection_lost(self, exc: Exception | None) -> None:
        self.give_up(ConnectionError(f"Redis closed the connection: {exc or 'at its end'}"))

    def give_up(self, error: Exception) -> None:
        """Close the connection; whoever waits gets `error`."""
        if self.is_lost:
            return
        self.is_lost = True
        self._transport.abort()
        self._connection._writer = None  # noqa: SLF001 - it is closed
        if self._watch is not None:
            self._watch.cancel()
        while self._sent:
            self._answer(error)


def _command(words: tuple[Word, ...]) -> bytes:
    texts = list(map(str, words))
    command = f"*{len(texts)}\r\n" + "".join([f"${len(text)}\r\n{text}\r\n" for text in texts])
    if command.isascii():
        return command.encode()
    return b"*%d\r\n" % len(texts) + b"".join(
        b"$%d\r\n%b\r\n" % (len(text), text) for text in map(str.encode, texts)
    )
