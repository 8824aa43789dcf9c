"""What `mock serve` answers itself beside the mocks: a route of one path, for anybody."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod

from kernel.errors import PlatformError
from mocks.errors import MethodNotAllowed
from mocks.plane.http_exchange import HttpExchange
from mocks.plane.http_requests import ClientLeft, Receive, Scope, Send

logger = logging.getLogger("partita.mocks")


class OwnRoute(ABC):
    """An ASGI application; what it raises is answered with a problem document."""

    methods: tuple[str, ...]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope["headers"])
        exchange = HttpExchange(scope, receive, send, started=time.monotonic(), given=given)
        try:
            await self._serve(exchange)
        except ClientLeft:
            return
        except MethodNotAllowed as error:
            await exchange.refuse(error, [(b"allow", error.methods)])
        except PlatformError as error:
            await exchange.refuse(error, [], [each.as_dict() for each in error.errors])
        except Exception:  # the edge: nothing may pass it
            logger.exception(
                "%s %s failed (request %s)",
                exchange.method, exchange.path, exchange.request_id.decode(),
            )  # fmt: skip
            await exchange.refuse(PlatformError("an internal error occurred"), [])

    async def _serve(self, exchange: HttpExchange) -> None:
        if exchange.method == "OPTIONS":
            asked = exchange.given.get(b"access-control-request-headers", b"")
            await exchange.preflight([], asked)
            return
        if exchange.method not in self.methods:
            raise MethodNotAllowed(", ".join((*self.methods, "OPTIONS")).encode())
        await self.answer(exchange)

    @abstractmethod
    async def answer(self, exchange: HttpExchange) -> None:
        """Answer a request that has one of the methods."""
