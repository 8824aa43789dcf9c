"""A request before its route: its facts and id, its limits, and a problem for any exception."""

from __future__ import annotations

import logging
import re
from typing import Final, Self

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve

from apps.http.json_body import MAX_BODY_BYTES, PayloadTooLarge
from apps.http.middleware.base import AsyncMiddleware
from apps.http.responses import internal_error, problem_for
from apps.observability.api import UNMATCHED, RequestContext, enter_request, request_context
from apps.operations.api import DatastoreUnavailable, is_draining, is_store_away
from kernel import ids
from kernel.errors import PlatformError

logger = logging.getLogger("partita.http")
_PARAMETER: Final = re.compile(r"<(?:[^>:]+:)?([^>]+)>")
_GIVEN_ID: Final = re.compile(r"[A-Za-z0-9._/-]{1,128}")
_HEALTH_ROUTES: Final = frozenset(  # answered until the end
    f"{prefix}/{route}"
    for prefix in ("", "/api/v1/system")
    for route in ("healthz", "readyz", "readyz/{subsystem}")
)


class ShuttingDown(PlatformError):
    code = "shutting_down"


class ExceptionMiddleware(AsyncMiddleware):
    """Looks up the route pattern, gives the request a fresh id, turns any exception into a 500."""

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        context = RequestContext(
            request_id=str(ids.new_uuid()), route=route_pattern(request.path_info)
        )
        enter_request(context)
        try:
            response = await self.get_response(request)
        except Exception as error:  # noqa: BLE001 - the barrier: nothing may pass it
            response = _answer(request, context, error)
        response.headers.setdefault("X-Request-Id", context.request_id)
        if request.method == "HEAD" and isinstance(response, StreamingHttpResponse):
            response.streaming_content = _Nothing()
        return response


def _answer(request: HttpRequest, context: RequestContext, error: Exception) -> HttpResponse:
    if is_store_away(error):
        logger.warning("%s %s: the store is away", request.method, context.route)
        return problem_for(request, DatastoreUnavailable())
    logger.error("%s %s failed", request.method, context.route, exc_info=error)
    return problem_for(request, internal_error())


def route_pattern(path: str) -> str:
    """`/api/v1/suites/{suiteId}` for a path that a route matches, else `unmatched`."""
    try:
        route = resolve(path).route
    except Resolver404:
        return UNMATCHED
    return "/" + _PARAMETER.sub(lambda found: f"{{{_camel_case(found[1])}}}", route)


def _camel_case(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


class _Nothing:
    """An answer to HEAD: the stream it stands for is never begun."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration


class RequestIdMiddleware(AsyncMiddleware):
    """Takes `X-Request-Id` when it is well formed, else keeps the fresh one; always echoes it."""

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        context = request_context()
        given = request.headers.get("X-Request-Id", "")
        if _GIVEN_ID.fullmatch(given):
            context.request_id = given
        response = await self.get_response(request)
        response["X-Request-Id"] = context.request_id
        return response


class RequestLimitsMiddleware(AsyncMiddleware):
    """The last stage before routing: refuses bodies that are too large, and all during a drain."""

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_draining() and request_context().route not in _HEALTH_ROUTES:
            return problem_for(request, ShuttingDown("this server is shutting down; try again"))
        length = str(request.META.get("CONTENT_LENGTH") or "")
        declared = int(length) if length.isdecimal() and len(length) < 19 else 0  # noqa: PLR2004
        if request.META.get("partita.too_large") or declared > MAX_BODY_BYTES:
            return problem_for(request, PayloadTooLarge())
        return await self.get_response(request)
