"""The data plane: `/mocks/…` and `/internal/mock-data/…` as a plain ASGI application.

It goes through the stages of the HTTP pipeline (reference: control-plane 2) without a session, and
asks neither a framework nor the store. An operation whose answer depends on nothing has one that
is ready to be sent.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from kernel.errors import PlatformError
from kernel.prepared_answers import Prepared
from mocks.errors import (
    MethodNotAllowed,
    NothingHere,
    OperationNotFound,
    SecretRequired,
    ShuttingDown,
    SurfaceNotFound,
)
from mocks.model.calls import MockAnswer, MockRequest
from mocks.plane import http_responses
from mocks.plane.call_notes import CallNotes, answer_of
from mocks.plane.early_calls import EarlyCall
from mocks.plane.http_exchange import HttpExchange, raw_path
from mocks.plane.http_requests import (
    BodyTooSlow,
    ClientLeft,
    Receive,
    RequestHeaders,
    Scope,
    Send,
    has_usual_body,
    parse_query,
    read_body,
    wait_connected,
)
from mocks.plane.http_responses import Headers
from mocks.plane.known_routes import KnownRoutes, Route
from mocks.plane.ready_answers import NotedRequest, ReadyAnswer, ReadyAnswers
from mocks.plane.resolver import headers_by_name, original_call, resolved_document
from mocks.plane.setup import AccessRules, PlaneSetup
from mocks.spaces import LiveSpace, require_space

if TYPE_CHECKING:
    from mocks.engine.tables import CompiledOperation, CompiledSurface

logger: Final = logging.getLogger("partita.mocks")
PREFIXES: Final = ("/mocks/", "/internal/mock-data/")
REST: Final = b"/mocks/rest/"
CallParts = tuple[Headers, bytes, bytes | None]  # headers, query, and the body if it is here
_NO_CONTENT: Final = 204
_PARTS: Final = 6  # "", mocks, adapter, space, surface, path or operation
_LENGTHS: Final[Mapping[str, tuple[int, ...]]] = {
    "rest": (_PARTS - 1, _PARTS),
    "grpc": (_PARTS,),
    "async": (_PARTS,),
    "ready": (_PARTS - 1,),
}
_METHODS: Final[Mapping[str, tuple[str, ...]]] = {  # () for any
    "rest": (),
    "grpc": ("POST", "OPTIONS"),
    "async": ("POST", "OPTIONS"),
    "ready": ("GET", "HEAD", "OPTIONS"),
}


class MockPlane:
    """The ASGI application; mount it in front for paths that begin with PREFIXES."""

    def __init__(self, setup: PlaneSetup) -> None:
        self._setup = setup
        self._spaces = setup.spaces
        self._routes = KnownRoutes(setup.spaces)
        self._notes = CallNotes(setup)
        self._access = AccessRules(setup)
        self._security = setup.common_headers()
        self._reserved = setup.reserved_names()
        self._ready = ReadyAnswers(setup, self._notes, self._security)
        self._has_quick_state = not setup.engine.state.waits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.monotonic()
        given = dict(scope["headers"])
        route = self._routes.find(scope["method"], raw_path(scope).decode("latin-1"), started)
        call = (scope, receive, send)
        parts = (scope["headers"], scope.get("query_string", b""), None)
        ready = self._find_ready(route, given, parts)
        if ready is None or route is None:
            await self._serve(HttpExchange(*call, started=started, given=given), route)
            return
        try:
            await self._ready.send(ready, route, call, given=given, started=started)
        except BodyTooSlow as error:
            exchange = HttpExchange(*call, started=started, given=given)
            exchange.set_route(route)
            await self._refuse(exchange, error)

    def answer_early(
        self, method: bytes, target: bytes, headers: Headers, body: bytes
    ) -> Prepared | None:
        """Answer a call that waits for nothing, None for another one (kernel.prepared_answers)."""
        if not target.startswith(REST) or not target.isascii() or b"#" in target:
            return None
        started = time.monotonic()
        path, _, query = target.partition(b"?")
        route = self._routes.find(name := method.decode("latin-1"), path.decode("ascii"), started)
        given = dict(headers)
        if route is None or b"traceparent" in given:  # a span belongs to a task
            return None
        if (ready := self._find_ready(route, given, (headers, query, body))) is not None:
            asked = NotedRequest(name, given, headers, body, query, started)
            return self._ready.make(ready, route, asked)
        if not self._is_quick(route):
            return None
        call = EarlyCall(name, path, query, headers, body)
        exchange = HttpExchange(*call.arguments, started=started, given=given)
        return call.run(self._serve(exchange, route))

    def _find_ready(
        self, route: Route | None, given: Mapping[bytes, bytes], call: CallParts
    ) -> ReadyAnswer | None:
        """Return the one answer of an operation, if this call gets it.

        An operation that cannot be compiled fails again within the fault barrier.
        """
        if (
            route is None
            or b"traceparent" in given
            or not has_usual_body(given)
            or self._setup.is_draining()
            or not self._access.may_call(route.space.name, given)
        ):
            return None
        try:  # suppress() would take a hundredth of the CPU of a ready answer
            return self._ready.find(route, given, *call)
        except Exception:  # noqa: BLE001 - the fault barrier meets it again
            return None

    def _is_quick(self, route: Route) -> bool:
        with suppress(Exception):  # as in _find_ready
            return route.operation.is_quick(has_quick_state=self._has_quick_state)
        return False

    async def _serve(self, exchange: HttpExchange, route: Route | None) -> None:
        """Answer; an exception becomes a problem document (the fault barrier)."""
        span = exchange.begin_span()
        try:
            if route is None:
                await self._answer(exchange)
            else:
                await self._answer_known(exchange, route)
        except ClientLeft:
            return
        except PlatformError as error:
            await self._refuse(exchange, error)
        except Exception:  # the edge: nothing may pass it
            logger.exception(
                "%s %s failed (request %s)",
                exchange.method,
                exchange.kind or "mock",
                exchange.request_id.decode(),
            )
            detail = "an internal error occurred; the log has it under the request's id"
            await self._refuse(exchange, PlatformError(detail))
        finally:
            if span is not None:
                exchange.end_span(span)

    async def _answer_known(self, exchange: HttpExchange, route: Route) -> None:
        if self._setup.is_draining():
            raise ShuttingDown
        exchange.kind = "rest"
        if not self._access.may_call(route.space.name, exchange.given):
            raise SecretRequired
        await self._simulate(exchange, route)

    async def _answer(self, exchange: HttpExchange) -> None:
        if self._setup.is_draining():
            raise ShuttingDown
        parts = exchange.path.split("/", 5)
        kind = parts[2] if len(parts) > 2 else ""  # noqa: PLR2004
        if parts[1] == "internal" and kind == "mock-data" and len(parts) == _PARTS:
            exchange.kind = kind
            await self._resolve(exchange, parts)
            return
        if parts[1] != "mocks" or len(parts) not in _LENGTHS.get(kind, ()):
            raise NothingHere
        exchange.kind = kind
        if exchange.method == "OPTIONS" and (kind != "rest" or exchange.is_preflight):
            asked = exchange.given.get(b"access-control-request-headers", b"")
            await exchange.preflight(self._security, asked)
            return
        if _METHODS[kind] and exchange.method not in _METHODS[kind]:
            raise MethodNotAllowed(b", ".join(each.encode() for each in _METHODS[kind]))
        if kind == "ready":
            await self._say_ready(exchange, parts)
        elif exchange.method == "OPTIONS":
            await self._answer_options(exchange, parts)
        else:
            await self._simulate(exchange, await self._find_route(exchange, parts))

    async def _answer_options(self, exchange: HttpExchange, parts: list[str]) -> None:
        """Answer OPTIONS other than a preflight: as declared, otherwise with the path's methods."""
        _, surface = await self._surface(exchange, parts)
        methods = surface.routes.methods_at(f"/{parts[5]}" if len(parts) == _PARTS else "/")
        if "OPTIONS" in methods or not methods:
            await self._simulate(exchange, await self._find_route(exchange, parts))
        else:
            allow = (b"allow", http_responses.allowed_methods(methods))
            await exchange.reply(_NO_CONTENT, [*self._security, allow], b"")

    async def _say_ready(self, exchange: HttpExchange, parts: list[str]) -> None:
        name = self._access.authorize_space(exchange.given, parts[3])
        space = require_space(name, await self._spaces.load_now(str(name)))
        surface = space.compiled.find_surface(unquote(parts[4]))
        if not surface.operations:
            raise SurfaceNotFound(parts[4])
        report = {"ready": True, "operations": len(surface.operations)}
        await exchange.reply(*http_responses.document(self._security, report))

    async def _simulate(self, exchange: HttpExchange, route: Route) -> None:
        operation = route.operation
        exchange.set_route(route)
        exchange.raw_body = await read_body(exchange.scope, exchange.given, exchange.receive)
        request = self._request(exchange, route)
        operation, answer = await self._setup.engine.answer_route(operation, request)
        exchange.operation = operation
        if answer.delay_ms:
            await wait_connected(answer.delay_ms / 1000, exchange.receive)
        await self._reply(exchange, answer, self._ready.prepare(operation).common)
        self._notes.note(exchange, answer, request)

    async def _find_route(self, exchange: HttpExchange, parts: list[str]) -> Route:
        """Find the operation of a path; raise what is missing."""
        space, surface = await self._surface(exchange, parts)
        rest = parts[5] if len(parts) == _PARTS else ""
        params: Mapping[str, str] = {}
        if exchange.kind == "rest":
            exchange.below = f"/{rest}"
            found = surface.route(exchange.method, exchange.below)
            operation, params = found or (None, params)
        else:
            exchange.below = f"/{unquote(rest)}"
            operation = surface.find(unquote(rest), exchange.kind)
            if operation is not None and exchange.kind == "grpc":
                exchange.below = f"/{operation.operation.path.lstrip('/')}"  # as gRPC names it
        if operation is None:
            raise self._operation_not_found(exchange, surface)
        if exchange.kind == "rest":
            self._routes.add(parts, space, surface)
        return Route(space, operation, params, exchange.below)

    async def _surface(
        self, exchange: HttpExchange, parts: list[str]
    ) -> tuple[LiveSpace, CompiledSurface]:
        name = self._access.authorize_space(exchange.given, parts[3])
        space = await self._spaces.find(name)
        surface = space.compiled.find_surface(unquote(parts[4]))
        exchange.space, exchange.surface_id = space.text, surface.surface.surface_id
        return space, surface

    def _operation_not_found(
        self, exchange: HttpExchange, surface: CompiledSurface
    ) -> PlatformError:
        if exchange.kind == "rest" and (others := surface.routes.methods_at(exchange.below)):
            return MethodNotAllowed(http_responses.allowed_methods(others))
        exchange.unmatched_of = surface
        shown = f"{exchange.method} {exchange.below}"[:300]
        return OperationNotFound(f"the surface {exchange.surface_id} has no operation {shown}")

    def _request(self, exchange: HttpExchange, route: Route) -> MockRequest:
        raw_query: bytes = exchange.scope.get("query_string", b"")
        return MockRequest(
            exchange.method,
            route.below,
            headers=RequestHeaders(exchange.headers, self._setup.own_cookies),
            query=parse_query(raw_query),
            params=route.params,
            raw_body=exchange.raw_body,
            raw_query=raw_query.decode("latin-1"),
        )

    async def _reply(self, exchange: HttpExchange, answer: MockAnswer, common: Headers) -> None:
        if answer.contract_errors:
            common = [*common, http_responses.contract_header(answer.contract_errors)]
        if answer.error_code:
            members = {"status": answer.status, **http_responses.nearest_member(answer)}
            error = PlatformError(answer.detail, code=answer.error_code, members=members)
            own = [(name.lower().encode(), http_responses.wire_value(value))
                   for name, value in answer.headers]  # fmt: skip
            await exchange.refuse(error, [*common, *own], answer.errors)
            return
        on_site = bool(answer.headers) and self._access.is_on_site(exchange.given)
        answer = http_responses.without_cookies(answer, self._setup.own_cookies)
        await exchange.reply(
            *http_responses.mock_response(common, answer, on_site=on_site, reserved=self._reserved),
            fault=answer.fault,
        )

    async def _resolve(self, exchange: HttpExchange, parts: list[str]) -> None:
        """Answer a gateway; always 200, but for a missing secret."""
        self._access.require_secret(exchange.given)
        common = self._security
        operation = request = None
        try:
            _, surface = await self._surface(exchange, parts)
            operation = surface.find_any(unquote(parts[5]))
            if operation is None:
                exchange.below = f"/{unquote(parts[5])}"
                raise self._operation_not_found(exchange, surface)
            exchange.operation = operation
            common = http_responses.operation_headers(operation, self._security)
            exchange.raw_body = await read_body(exchange.scope, exchange.given, exchange.receive)
            request = self._original_request(exchange, surface, operation)
            operation, answer = await self._setup.engine.answer_named(operation, request)
            exchange.operation = operation
        except BodyTooSlow:
            raise
        except PlatformError as error:
            answer = answer_of(error)
        if answer.delay_ms:
            await wait_connected(answer.delay_ms / 1000, exchange.receive)
        on_site = self._access.is_on_site(exchange.given)
        answer = http_responses.without_cookies(answer, self._setup.own_cookies)
        wire = resolved_document(
            operation,
            answer,
            headers=headers_by_name(answer, on_site=on_site, reserved=self._reserved),
        )
        await exchange.reply(*http_responses.document(common, wire))
        exchange.status = answer.status
        self._notes.note(exchange, answer, request)

    def _original_request(
        self, exchange: HttpExchange, surface: CompiledSurface, operation: CompiledOperation
    ) -> MockRequest:
        call = original_call(
            surface,
            operation,
            method=exchange.method,
            given=exchange.given,
            raw_query=exchange.scope.get("query_string", b""),
        )
        exchange.method, exchange.below = call.method, call.path
        return MockRequest(
            call.method,
            call.path,
            headers=RequestHeaders(exchange.headers, self._setup.own_cookies),
            query=call.query,
            params=call.params,
            raw_body=exchange.raw_body,
            raw_query=call.raw_query,
        )

    async def _refuse(self, exchange: HttpExchange, error: PlatformError) -> None:
        common = self._security
        if exchange.operation is not None:
            common = http_responses.operation_headers(exchange.operation, self._security)
        if isinstance(error, MethodNotAllowed):
            common = [*common, (b"allow", error.methods)]
        answer = self._notes.refusal_of(exchange, error)
        if not exchange.status:
            error.members |= http_responses.nearest_member(answer)
            await exchange.refuse(error, common)
        self._notes.note(exchange, answer, None)
