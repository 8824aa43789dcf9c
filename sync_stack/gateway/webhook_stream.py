"""Deliveries handed on in batches, over one stream of ProcessWebhooks.

A batch is all that arrived while the batches before it were under way, so that a call costs the
processor less the more of them there are. The orchestrator answers each delivery of a batch after
it stored the batch. A stream that breaks fails every delivery that it has not answered. An error
that nobody foresaw is counted as a failure of the background loop `webhook-stream`, and another
stream opens, after a pause if no delivery comes before.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio

from kernel import background
from sync_stack.rpc.channel import (
    MAX_BATCH,
    MAX_BATCH_BYTES,
    OrchestratorChannel,
    call_metadata,
)

log: Final = logging.getLogger("partita.sync.gateway")

LARGEST: Final = 2**20  # bytes; a larger delivery would hold up those behind it
UNANSWERED: Final = 2  # batches: one that is being stored, and one that is there when it is
_UNARY_S: Final = 60.0  # without a further try, where the orchestrator does not know the method
_CLOSE_S: Final = 1.0
_LOW_BITS: Final = 0x7F
# Protobuf: a field's number and type, 2 for what has a length (`webhooks` of the batch; `request`
# and `traceparent` of ForwardedWebhook).
_WEBHOOKS: Final = b"\x0a"
_REQUEST: Final = b"\x0a"
_TRACEPARENT: Final = b"\x12"
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


class CallFailed(Exception):
    """A delivery that the orchestrator refused, or did not answer."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"{code.name}: {details}")
        self.code = code
        self.details = details


class StreamUnknown(Exception):
    """The orchestrator does not know the method, so it has stored nothing."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A delivery; `answer` gets its ProcessWebhookResult."""

    key: str
    parts: tuple[bytes, ...]  # of the batch, in protobuf
    size: int
    answer: asyncio.Future[Any]
    sent_at: float = float("inf")


class WebhookStreams:
    """The stream that takes deliveries now, and those that only wait for their last answers."""

    def __init__(
        self,
        channel: OrchestratorChannel,
        *,
        token: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._channel = channel
        self._metadata = call_metadata(token=token)
        self._clock = clock
        self._current: _Stream | None = None
        self._open: set[_Stream] = set()
        self._unary_until = float("-inf")
        self._reopening: asyncio.TimerHandle | None = None
        self._closed = False
        self._watch = background.Watch("webhook-stream")
        background.register(self._watch)

    def takes(self, size: int) -> bool:
        """Whether a request of so many bytes goes over a stream."""
        return size <= LARGEST and self._clock() >= self._unary_until

    async def call(self, key: str, message: bytes, traceparent: str, timeout_s: float) -> Any:
        """The ProcessWebhookResponse for a serialized request. Raises CallFailed, StreamUnknown."""
        loop = asyncio.get_running_loop()
        parts = _framed(message, traceparent)
        waiting = _Waiting(key, parts, sum(map(len, parts)), loop.create_future())
        stream = self._stream()
        timer = loop.call_later(timeout_s, self._expire, waiting)
        stream.add(waiting)
        try:
            result = await waiting.answer
        finally:
            timer.cancel()
        if result.code:
            raise CallFailed(_CODES.get(result.code, grpc.StatusCode.UNKNOWN), result.detail)
        return result.response

    async def close(self) -> None:
        """End every stream in order, or, after a second, as it is."""
        self._closed = True
        if self._reopening is not None:
            self._reopening.cancel()
        self._replace()
        ending = [stream.ended for stream in self._open]
        if ending:
            await asyncio.wait(ending, timeout=_CLOSE_S)
        for stream in tuple(self._open):
            stream.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        background.forget(self._watch)

    def _stream(self) -> _Stream:
        """The one in use; another where TLS files changed, or the last one has ended."""
        method = self._channel.process_webhooks
        if self._current is not None and self._current.method is not method:
            self._replace()
        if self._current is None:
            self._watch.begin()
            made = _Stream(method, self._metadata, self._clock, self._drained, self._failed)
            made.ended.add_done_callback(lambda _task: self._ended(made))
            self._open.add(made)
            self._current = made
        return self._current

    def _replace(self) -> None:
        """The next delivery opens another stream; this one ends with its last answer."""
        stream, self._current = self._current, None
        unsent = stream.retire() if stream is not None else ()
        if unsent:
            successor = self._stream()
            for waiting in unsent:
                successor.add(waiting)

    def _drained(self, stream: _Stream) -> None:
        if stream is self._current:
            self._replace()

    def _failed(self, error: Exception) -> None:
        pause = self._watch.failed(error)
        if not self._closed:
            self._reopening = asyncio.get_running_loop().call_later(pause, self._reopen)

    def _reopen(self) -> None:
        """So that readiness, which the failure took away, comes back without a delivery."""
        self._watch.begin()
        self._stream()

    def _ended(self, stream: _Stream) -> None:
        self._open.discard(stream)
        if stream is self._current:
            self._current = None
        if stream.unknown:
            self._unary_until = self._clock() + _UNARY_S
            log.info(
                "the orchestrator takes deliveries one by one", extra={"event": "stream_unknown"}
            )

    def _expire(self, waiting: _Waiting) -> None:
        if waiting.answer.done():
            return
        waiting.answer.set_exception(
            CallFailed(grpc.StatusCode.DEADLINE_EXCEEDED, "the orchestrator did not answer in time")
        )
        for stream in tuple(self._open):
            if stream is self._current and stream.answered_at < waiting.sent_at < float("inf"):
                self._replace()  # nothing has come since: what follows need not wait for it
            stream.cancel_if_done()


class _Stream:
    """One call. Its reader ends it, for whatever reason; `ended` is done when it has."""

    def __init__(
        self,
        method: Any,
        metadata: tuple[tuple[str, str], ...],
        clock: Callable[[], float],
        drained: Callable[[_Stream], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.method = method
        self.unknown = False
        self.answered_at = float("-inf")
        self._clock = clock
        self._drained = drained
        self._failed = failed
        self._retired = False
        self._unsent: deque[_Waiting] = deque()
        self._unanswered: dict[str, list[_Waiting]] = {}
        self._batches = 0  # sent and not answered
        self._wake = asyncio.Event()
        self._call = method(metadata=metadata)
        loop = asyncio.get_running_loop()
        self._writing = loop.create_task(self._write())
        self._writing.add_done_callback(self._written)
        self.ended = loop.create_task(self._read())

    def add(self, waiting: _Waiting) -> None:
        self._unsent.append(waiting)
        self._wake.set()

    def retire(self) -> list[_Waiting]:
        """Send nothing more, and end after the last answer; what was not sent yet."""
        unsent = [waiting for waiting in self._unsent if not waiting.answer.done()]
        self._unsent.clear()
        self._retired = True
        self._wake.set()
        return unsent

    def cancel(self) -> None:
        self._call.cancel()

    def cancel_if_done(self) -> None:
        """Retired, and nobody waits for what the orchestrator still owes."""
        if self._retired and not any(self._still_waiting()):
            self.cancel()

    def _still_waiting(self) -> list[_Waiting]:
        each = (waiting for line in self._unanswered.values() for waiting in line)
        return [waiting for waiting in each if not waiting.answer.done()]

    async def _write(self) -> None:
        while True:
            self._wake.clear()
            if batch := self._next_batch():
                self._batches += 1
                await self._call.write(batch)
            elif self._retired:
                await self._call.done_writing()
                return
            else:
                await self._wake.wait()

    def _written(self, task: asyncio.Task[None]) -> None:
        """The reader says why a call ended; anything else that stops the writer ends the call."""
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        expected = isinstance(error, grpc.aio.AioRpcError | asyncio.InvalidStateError)
        if isinstance(error, Exception) and not expected:
            self._failed(error)
        self.cancel()

    def _next_batch(self) -> bytes:
        """Empty while nothing waits, or too much is unanswered."""
        parts: list[bytes] = []
        size = count = 0
        while self._unsent and self._batches < UNANSWERED and count < MAX_BATCH:
            waiting = self._unsent[0]
            if size + waiting.size > MAX_BATCH_BYTES:
                break
            self._unsent.popleft()
            if waiting.answer.done():
                continue
            count, size = count + 1, size + waiting.size
            parts += waiting.parts
            waiting.sent_at = self._clock()
            self._unanswered.setdefault(waiting.key, []).append(waiting)
        return b"".join(parts)

    async def _read(self) -> None:
        code, details = grpc.StatusCode.UNAVAILABLE, "the orchestrator ended the stream"
        try:
            while (result := await self._call.read()) is not grpc.aio.EOF:
                if result.draining:
                    self._drained(self)
                else:
                    self._answer(result)
        except grpc.aio.AioRpcError as error:
            code, details = error.code(), error.details() or ""
        except asyncio.CancelledError:  # by `cancel`, or with its channel
            code, details = grpc.StatusCode.CANCELLED, "the stream was closed"
        except Exception as error:  # noqa: BLE001 - the edge of the task: logged and counted
            code, details = grpc.StatusCode.CANCELLED, "the stream failed"
            self._failed(error)
            self.cancel()
        finally:
            self._writing.cancel()
            self._fail(code, details)

    def _answer(self, result: Any) -> None:
        self._batches -= 1
        self.answered_at = self._clock()
        self._wake.set()
        for each in result.results:
            for waiting in self._unanswered.pop(each.idempotency_key, ()):
                if not waiting.answer.done():
                    waiting.answer.set_result(each)

    def _fail(self, code: grpc.StatusCode, details: str) -> None:
        left = [*self._still_waiting(), *self._unsent]
        self._retired, self.unknown = True, code is grpc.StatusCode.UNIMPLEMENTED
        self._unanswered.clear()
        self._unsent.clear()
        for waiting in left:
            if not waiting.answer.done():
                error = StreamUnknown() if self.unknown else CallFailed(code, details)
                waiting.answer.set_exception(error)


def _framed(message: bytes, traceparent: str) -> tuple[bytes, ...]:
    """A ForwardedWebhook as a member of a batch; several of these after another are a batch."""
    head = _REQUEST + _varint(len(message))
    tail = b""
    if traceparent:
        text = traceparent.encode()
        tail = _TRACEPARENT + _varint(len(text)) + text
    length = _varint(len(head) + len(message) + len(tail))
    return (_WEBHOOKS + length + head, message, tail)


def _varint(number: int) -> bytes:
    if number <= _LOW_BITS:
        return b"%c" % number
    made = bytearray()
    while number > _LOW_BITS:
        made.append(number & _LOW_BITS | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)
