"""Which pages of other origins may call the API (reference: control-plane 2)."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

from apps.http import conf
from apps.http.middleware.base import AsyncMiddleware
from apps.http.problems import problem_for
from kernel.errors import PlatformError

METHODS: Final = "GET, POST, PUT, DELETE, OPTIONS"
REQUEST_HEADERS: Final = (
    "Authorization, Content-Type, X-CSRFToken, X-Request-Id, Idempotency-Key, If-Match, "
    "If-None-Match, Last-Event-ID, Cache-Control, traceparent, tracestate, baggage"
)
EXPOSED_HEADERS: Final = "ETag, Location, Retry-After, X-Request-Id"
MAX_AGE_S: Final = "600"


class OriginNotAllowed(PlatformError):
    code = "origin_not_allowed"


class CorsMiddleware(AsyncMiddleware):
    """Answers preflights; other requests of a foreign origin are served without CORS headers."""

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        allowed = _allowed_origin(request)
        if not _is_preflight(request):
            response = await self.get_response(request)
        elif allowed:
            response = _preflight_answer()
        else:
            response = problem_for(request, OriginNotAllowed("this origin may not call the API"))
        if allowed:
            response["Access-Control-Allow-Origin"] = allowed
            response["Access-Control-Expose-Headers"] = EXPOSED_HEADERS
        if "Origin" in request.headers:
            patch_vary_headers(response, ["Origin"])
        return response


def _is_preflight(request: HttpRequest) -> bool:
    return request.method == "OPTIONS" and {
        "Origin",
        "Access-Control-Request-Method",
    } <= set(request.headers)


def _allowed_origin(request: HttpRequest) -> str:
    """What `Access-Control-Allow-Origin` says, or empty."""
    origin = request.headers.get("Origin", "")
    if origin and request.path.startswith("/mocks/"):
        return "*"
    return origin if origin in (_own_origin(), *conf.frontend_origins()) else ""


def _own_origin() -> str:
    url = urlsplit(conf.public_url())
    return f"{url.scheme}://{url.netloc}"


def _preflight_answer() -> HttpResponse:
    return HttpResponse(
        status=204,
        headers={
            "Access-Control-Allow-Methods": METHODS,
            "Access-Control-Allow-Headers": REQUEST_HEADERS,
            "Access-Control-Max-Age": MAX_AGE_S,
        },
    )
