"""Deliveries forwarded in batches over one stream of ProcessWebhooks.

A batch holds everything that arrived while the previous batches were in progress, so that the cost
per delivery falls as the load rises. The orchestrator answers the deliveries of a batch after it
has stored the batch. A broken stream fails all its unanswered deliveries. An unexpected error
counts as a failure of the background loop `webhook-stream`; the next delivery, or the end of a
pause, opens another stream.
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

MAX_STREAMED_BYTES: Final = 2**20  # a larger delivery would delay those behind it
MAX_UNANSWERED_BATCHES: Final = 2  # one is being stored, the next one is ready
_UNARY_PERIOD_S: Final = 60.0  # until the stream is tried again, where it is unsupported
_CLOSE_S: Final = 1.0
_LOW_BITS: Final = 0x7F
# Protobuf: a field's number and type, 2 for what has a length (`webhooks` of the batch; `request`
# and `traceparent` of ForwardedWebhook).
_WEBHOOKS: Final = b"\x0a"
_REQUEST: Final = b"\x0a"
_TRACEPARENT: Final = b"\x12"
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


class CallFailed(Exception):
    """A delivery that the orchestrator refused or did not answer."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"{code.name}: {details}")
        self.code = code
        self.details = details


class StreamUnknown(Exception):
    """The orchestrator does not know the method, so it has stored nothing."""


@dataclass(slots=True, eq=False)
class _PendingDelivery:
    """A delivery without an answer yet; `result` becomes its ProcessWebhookResult."""

    key: str
    parts: tuple[bytes, ...]  # of the batch, in protobuf
    size: int
    result: asyncio.Future[Any]
    sent_at: float = float("inf")


class WebhookStreams:
    """The stream in use, and replaced streams that wait for their last answers."""

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
        """Return whether a request of `size` bytes goes over a stream."""
        return size <= MAX_STREAMED_BYTES and self._clock() >= self._unary_until

    async def call(self, key: str, message: bytes, traceparent: str, timeout_s: float) -> Any:
        """Return the ProcessWebhookResponse. Raises CallFailed, StreamUnknown."""
        loop = asyncio.get_running_loop()
        parts = _frame(message, traceparent)
        waiting = _PendingDelivery(key, parts, sum(map(len, parts)), loop.create_future())
        stream = self._stream()
        timer = loop.call_later(timeout_s, self._expire, waiting)
        stream.add(waiting)
        try:
            result = await waiting.result
        finally:
            timer.cancel()
        if result.code:
            raise CallFailed(_CODES.get(result.code, grpc.StatusCode.UNKNOWN), result.detail)
        return result.response

    async def close(self) -> None:
        """Let every stream end by itself for a second, then cancel it."""
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
        """Return the stream in use; open one after the last ended or TLS files changed."""
        method = self._channel.process_webhooks
        if self._current is not None and self._current.method is not method:
            self._replace()
        if self._current is None:
            self._watch.begin()
            made = _Stream(method, self._metadata, self._clock, self._on_drained, self._on_failure)
            made.ended.add_done_callback(lambda _task: self._on_end(made))
            self._open.add(made)
            self._current = made
        return self._current

    def _replace(self) -> None:
        """Retire the stream, which ends with its last answer; the next delivery opens another."""
        stream, self._current = self._current, None
        unsent = stream.retire() if stream is not None else ()
        if unsent:
            successor = self._stream()
            for waiting in unsent:
                successor.add(waiting)

    def _on_drained(self, stream: _Stream) -> None:
        if stream is self._current:
            self._replace()

    def _on_failure(self, error: Exception) -> None:
        pause = self._watch.record_failure(error)
        if not self._closed:
            self._reopening = asyncio.get_running_loop().call_later(pause, self._reopen)

    def _reopen(self) -> None:
        """Open a stream without a delivery, so that readiness comes back after a failure."""
        self._watch.begin()
        self._stream()

    def _on_end(self, stream: _Stream) -> None:
        self._open.discard(stream)
        if stream is self._current:
            self._current = None
        if stream.unknown:
            self._unary_until = self._clock() + _UNARY_PERIOD_S
            log.info(
                "the orchestrator takes deliveries one by one", extra={"event": "stream_unknown"}
            )

    def _expire(self, waiting: _PendingDelivery) -> None:
        if waiting.result.done():
            return
        waiting.result.set_exception(
            CallFailed(grpc.StatusCode.DEADLINE_EXCEEDED, "the orchestrator did not answer in time")
        )
        for stream in tuple(self._open):
            if stream is self._current and stream.answered_at < waiting.sent_at < float("inf"):
                self._replace()  # no answer since it was sent: later deliveries need not wait
            stream.cancel_if_done()


class _Stream:
    """One call of ProcessWebhooks; `ended` is done when its reader has ended the call."""

    def __init__(
        self,
        method: Any,
        metadata: tuple[tuple[str, str], ...],
        clock: Callable[[], float],
        on_drained: Callable[[_Stream], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.method = method
        self.unknown = False
        self.answered_at = float("-inf")
        self._clock = clock
        self._on_drained = on_drained
        self._on_failure = on_failure
        self._retired = False
        self._unsent: deque[_PendingDelivery] = deque()
        self._unanswered: dict[str, list[_PendingDelivery]] = {}
        self._batches = 0  # sent and not answered
        self._wake = asyncio.Event()
        self._call = method(metadata=metadata)
        loop = asyncio.get_running_loop()
        self._writing = loop.create_task(self._write())
        self._writing.add_done_callback(self._on_written)
        self.ended = loop.create_task(self._read())

    def add(self, waiting: _PendingDelivery) -> None:
        self._unsent.append(waiting)
        self._wake.set()

    def retire(self) -> list[_PendingDelivery]:
        """Send nothing more and end after the last answer; return the unsent deliveries."""
        unsent = [waiting for waiting in self._unsent if not waiting.result.done()]
        self._unsent.clear()
        self._retired = True
        self._wake.set()
        return unsent

    def cancel(self) -> None:
        self._call.cancel()

    def cancel_if_done(self) -> None:
        """Cancel a retired stream once no caller waits for its answers."""
        if self._retired and not any(self._still_waiting()):
            self.cancel()

    def _still_waiting(self) -> list[_PendingDelivery]:
        each = (waiting for line in self._unanswered.values() for waiting in line)
        return [waiting for waiting in each if not waiting.result.done()]

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

    def _on_written(self, task: asyncio.Task[None]) -> None:
        """End the call after an unexpected error of the writer; the reader reports other ends."""
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        expected = isinstance(error, grpc.aio.AioRpcError | asyncio.InvalidStateError)
        if isinstance(error, Exception) and not expected:
            self._on_failure(error)
        self.cancel()

    def _next_batch(self) -> bytes:
        """Return a batch; empty while nothing waits or too many batches are unanswered."""
        parts: list[bytes] = []
        size = count = 0
        while self._unsent and self._batches < MAX_UNANSWERED_BATCHES and count < MAX_BATCH:
            waiting = self._unsent[0]
            if size + waiting.size > MAX_BATCH_BYTES:
                break
            self._unsent.popleft()
            if waiting.result.done():
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
                    self._on_drained(self)
                else:
                    self._answer(result)
        except grpc.aio.AioRpcError as error:
            code, details = error.code(), error.details() or ""
        except asyncio.CancelledError:  # by `cancel` or with its channel
            code, details = grpc.StatusCode.CANCELLED, "the stream was closed"
        except Exception as error:  # noqa: BLE001 - the edge of the task: logged and counted
            code, details = grpc.StatusCode.CANCELLED, "the stream failed"
            self._on_failure(error)
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
                if not waiting.result.done():
                    waiting.result.set_result(each)

    def _fail(self, code: grpc.StatusCode, details: str) -> None:
        left = [*self._still_waiting(), *self._unsent]
        self._retired, self.unknown = True, code is grpc.StatusCode.UNIMPLEMENTED
        self._unanswered.clear()
        self._unsent.clear()
        for waiting in left:
            if not waiting.result.done():
                error = StreamUnknown() if self.unknown else CallFailed(code, details)
                waiting.result.set_exception(error)


def _frame(message: bytes, traceparent: str) -> tuple[bytes, ...]:
    """Return a ForwardedWebhook as a member of a batch; concatenated members are a batch."""
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
