"""`POST /api/v1/mocks/explain` of `mock serve`: as the control plane has it, for anybody.

(reference: control-plane 18.1)
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import msgspec

from kernel.errors import InvalidInput
from mocks.engine.explanation import explain
from mocks.engine.inspection import ExplainedCall, locate_call
from mocks.errors import SuiteNotFound
from mocks.plane import http_responses
from mocks.plane.http_exchange import HttpExchange
from mocks.plane.http_requests import read_body
from mocks.plane.setup import PlaneSetup
from mocks.standalone.own_routes import OwnRoute

PATH: Final = "/api/v1/mocks/explain"


class _Asked(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    surface_id: str
    suite_id: str = ""
    operation_id: str = ""
    method: str = ""
    path: str = ""
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    body: Any = ""


class Explanations(OwnRoute):
    """Explains calls of the one suite `suite_id`."""

    methods: ClassVar[tuple[str, ...]] = ("POST",)

    def __init__(self, setup: PlaneSetup, suite_id: str) -> None:
        self._setup = setup
        self._suite_id = suite_id

    async def answer(self, exchange: HttpExchange) -> None:
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
        await exchange.reply(*http_responses.document([], explained))


def _parse(body: bytes) -> _Asked:
    try:
        return msgspec.json.decode(body, type=_Asked)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the body is not what explain takes: {error}") from None
