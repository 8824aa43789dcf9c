"""The outermost stage: facts of the request, and no exception that leaves it."""

from __future__ import annotations

import logging
import re
from typing import Self

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve

from apps.http.middleware.base import AsyncMiddleware
from apps.http.problems import internal_error, problem_for
from apps.observability.api import UNMATCHED, RequestContext, enter_request
from apps.operations.api import DatastoreUnavailable, is_store_away
from kernel import ids

logger = logging.getLogger("partita.http")
_PARAMETER = re.compile(r"<(?:[^>:]+:)?([^>]+)>")


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
