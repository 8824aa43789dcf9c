"""Calls that follow an answer, sent through the guard of proxies (reference: control-plane 18.4).

Nobody waits for them: what becomes of each is in the journal.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from kernel.errors import PlatformError
from mocks.journal.entries import MAX_BODY_BYTES, NotedCall
from mocks.model.calls import CALLBACK, CallbackRequest, CallOutcome, MockAnswer
from mocks.model.ports import ProxyFailed
from mocks.plane.http_exchange import HttpExchange
from mocks.plane.setup import PlaneSetup

logger: Final = logging.getLogger("partita.mocks")
MAX_WAITING: Final = 200  # of a plane, for their delay or an answer
AT_ONCE: Final = 16  # of a plane: the rest of what the guard sends at once is for fallbacks
RETRIES_AFTER_S: Final = (0.5, 2.0)
_SERVER_ERROR: Final = 500
_LONGEST_URL: Final = 2_048
_LONGEST_DETAIL: Final = 500


class CallbackSender:
    def __init__(self, setup: PlaneSetup) -> None:
        self._proxy = setup.engine.proxy
        self._journal = setup.journal
        self._waiting: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(AT_ONCE)

    def start(self, exchange: HttpExchange, answer: MockAnswer) -> None:
        """Send the callbacks of an answer; return at once. Called on the event loop."""
        for each in answer.callbacks:
            sending = _Sending(exchange, answer.example)
            if len(self._waiting) >= MAX_WAITING:
                sending.detail = f"not sent: {MAX_WAITING} callbacks wait already"
                self._note(sending)
                continue
            task = asyncio.get_running_loop().create_task(self._send(sending, each))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def _send(self, sending: _Sending, make: Callable[[], CallbackRequest]) -> None:
        try:
            sending.request = make()
            await asyncio.sleep(sending.request.delay_ms / 1000)
            sending.started = time.monotonic()
            for wait_s in (*RETRIES_AFTER_S, None):
                async with self._places:
                    sending.status, sending.detail = await self._send_once(sending)
                if 0 < sending.status < _SERVER_ERROR:
                    break
                sending.detail = sending.detail or f"answered with {sending.status}"
                if wait_s is None:
                    break
                await asyncio.sleep(wait_s)
        except PlatformError as error:
            sending.detail = error.detail
        except Exception:  # the edge: nobody waits for this task
            logger.exception("A callback of %s failed", sending.example[:100])
            sending.detail = "an internal error occurred; the log has it"
        self._note(sending)

    async def _send_once(self, sending: _Sending) -> tuple[int, str]:
        """Return the status of the answer, or 0 and why there is none; raise ProxyRefused."""
        request = sending.request
        headers = {**request.headers, "via": sending.via}
        try:
            answer = await self._proxy.forward(
                request.url,
                method=request.method,
                headers=headers if sending.via else request.headers,
                body=request.body,
                let_through=frozenset(request.headers),
            )
        except ProxyFailed as error:
            return 0, error.detail
        return answer.status, ""

    def _note(self, sending: _Sending) -> None:
        request = sending.request
        is_answered = 0 < sending.status < _SERVER_ERROR
        note = NotedCall(
            id=self._journal.next_id(),
            time=time.time(),
            method=CALLBACK,
            path=request.url[:_LONGEST_URL],
            surface_id=sending.surface_id,
            operation_id=sending.operation_id,
            example=sending.example,
            outcome=CallOutcome.EXAMPLE if is_answered else CallOutcome.ERROR,
            status=sending.status,
            duration_ms=(time.monotonic() - sending.started) * 1000,
            headers=[
                (name.encode(), value.encode(errors="replace"))
                for name, value in request.headers.items()
            ],
            body=request.body[:MAX_BODY_BYTES],
            detail=sending.detail[:_LONGEST_DETAIL],
        )
        self._journal.add(sending.space, note)


class _Sending:
    """A callback and what becomes of it; `status` is 0 without an answer."""

    __slots__ = (
        "detail", "example", "operation_id", "request", "space", "started", "status",
        "surface_id", "via",
    )  # fmt: skip

    def __init__(self, exchange: HttpExchange, example: str) -> None:
        self.space = exchange.space
        self.surface_id = exchange.surface_id
        self.operation_id = exchange.operation.operation.operation_id
        self.example = example
        self.via = exchange.given.get(b"via", b"").decode("latin-1")
        self.request = CallbackRequest("", "", {}, b"")
        self.started = time.monotonic()
        self.status = 0
        self.detail = ""
