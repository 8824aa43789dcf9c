"""The shape of a pipeline stage: async only, so that no stage costs a hop to a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar, Final

from asgiref.sync import markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

CLIENT_CLOSED_REQUEST: Final = 499
GetResponse = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


class AsyncMiddleware:
    """One stage of the request pipeline; the order is that of settings.MIDDLEWARE."""

    async_capable: ClassVar[bool] = True
    sync_capable: ClassVar[bool] = False

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        markcoroutinefunction(self)

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        raise NotImplementedError

    async def observe_response(
        self, request: HttpRequest, note_end: Callable[[int], None]
    ) -> HttpResponseBase:
        """Return the inner stages' response; call `note_end(status)` once, when it has been sent.

        The status is 499 when the client left before there was an answer.
        """
        try:
            response = await self.get_response(request)
        except asyncio.CancelledError:
            note_end(CLIENT_CLOSED_REQUEST)
            raise
        call_when_closed(response, lambda: note_end(response.status_code))
        return response


def call_when_closed(response: HttpResponseBase, do: Callable[[], None]) -> None:
    """Call `do` once, after the last byte of the response was sent, or its client has gone."""
    close, pending = response.close, [do]

    def close_and_do() -> None:
        close()
        while pending:
            pending.pop()()

    response.close = close_and_do  # type: ignore[method-assign]
