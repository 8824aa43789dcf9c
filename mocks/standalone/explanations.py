"""`POST /api/v1/mocks/explain` of `mock serve`: as the control plane has it, for anybody.

(reference: control-plane 18.1)
"""

from __future__ import annotations

import logging
import time
from typing import Any, Final

import msgspec

from kernel.errors import InvalidInput, PlatformError
from mocks.engine.explanation import explain
from mocks.engine.inspection import ExplainedCall, locate_call
from mocks.errors import MethodNotAllowed, SuiteNotFound
from mocks.plane import http_responses
from mocks.plane.http_exchange import HttpExchange
from mocks.plane.http_requests import (
    ClientLeft,
    Receive,
    Scope,
    Send,
    read_body,
    request_id_of,
)
from mocks.plane.setup import PlaneSetup

PATH: Final = "/api/v1/mocks/explain"
_METHODS: Final = b"POST, OPTIONS"
logger = logging.getLogger("partita.mocks")


class _Asked(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    surface_id: str
    suite_id: str = ""
    operation_id: str = ""
    method: str = ""
    path: str = ""
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    body: Any = ""


class Explanations:
    """Explains calls of the one suite `suite_id`."""

    def __init__(self, setup: PlaneSetup, suite_id: str) -> None:
        self._setup = setup
        self._suite_id = suite_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope["headers"])
        exchange = HttpExchange(
            scope, receive, send,
            started=time.monotonic(), given=given, request_id=request_id_of(given),
        )  # fmt: skip
        try:
            await self._answer(exchange)
        except ClientLeft:
            return
        except MethodNotAllowed as error:
            await exchange.refuse(error, [*http_responses.SECURITY, (b"allow", error.methods)])
        except PlatformError as error:
            errors = [each.as_dict() for each in error.errors]
            await exchange.refuse(error, http_responses.SECURITY, errors)
        except Exception:  # the edge: nothing may pass it
            logger.exception("an explanation failed (request %s)", exchange.request_id.decode())
            await exchange.refuse(
                PlatformError("an internal error occurred"), http_responses.SECURITY
            )

    async def _answer(self, exchange: HttpExchange) -> None:
        if exchange.method == "OPTIONS":
            asked = exchange.given.get(b"access-control-request-headers", b"")
            await exchange.preflight(http_responses.SECURITY, asked)
            return
        if exchange.method != "POST":
            raise MethodNotAllowed(_METHODS)
        asked_for = _parse(await read_body(exchange.scope, exchange.given, exchange.receive))
        if asked_for.suite_id not in ("", self._suite_id):
            raise SuiteNotFound(asked_for.suite_id)
        call = ExplainedCall(
            surface_id=asked_for.surface_id,
            operation_id=asked_for.operation_id,
            method=asked_for.method,
            path=asked_for.path,
            headers=asked_for.headers,
            query=asked_for.query,
            body=asked_for.body,
        )
        space = await self._setup.spaces.load(self._suite_id)
        if space is None:
            raise SuiteNotFound(self._suite_id)
        operation, request = locate_call(space.compiled, call)
        explained = await explain(self._setup.engine, operation, request)
        await exchange.reply(*http_responses.document(http_responses.SECURITY, explained))


def _parse(body: bytes) -> _Asked:
    try:
        return msgspec.json.decode(body, type=_Asked)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"the body is not what explain takes: {error}") from None
