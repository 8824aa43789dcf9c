"""What answers tell browsers, and which pages may call the API (reference: control-plane 2)."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

from apps.http import conf
from apps.http.middleware.base import AsyncMiddleware, GetResponse
from apps.http.responses import problem_for
from kernel.errors import PlatformError

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'self'; script-src 'self'; worker-src 'self'; style-src 'self'; "
    "img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
METHODS: Final = "GET, POST, PUT, PATCH, DELETE, OPTIONS"
REQUEST_HEADERS: Final = (
    "Authorization, Content-Type, X-CSRFToken, X-Request-Id, Idempotency-Key, If-Match, "
    "If-None-Match, Last-Event-ID, Cache-Control, traceparent, tracestate, baggage"
)
EXPOSED_HEADERS: Final = "ETag, Location, Retry-After, X-Request-Id"
MAX_AGE_S: Final = "600"


class ContentPolicyMiddleware(AsyncMiddleware):
    """Sets what the view has not set itself (an artifact's `sandbox` policy stays).

    Django's stages set the other headers. HSTS is set here, too: Django sets it only where the
    request itself came by https, which most proxies do not pass on.
    """

    def __init__(self, get_response: GetResponse) -> None:
        super().__init__(get_response)
        self._headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY}
        if https_only := conf.strict_transport_security():
            self._headers["Strict-Transport-Security"] = https_only

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = await self.get_response(request)
        for name, value in self._headers.items():
            response.headers.setdefault(name, value)
        return response


class OriginNotAllowed(PlatformError):
    code = "origin_not_allowed"


class CorsMiddleware(AsyncMiddleware):
    """Answers preflights; other requests of a foreign origin are served without CORS headers."""

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        allowed = _allowed_origin(request)
        is_preflight = request.method == "OPTIONS" and (
            {"Origin", "Access-Control-Request-Method"} <= set(request.headers)
        )
        if not is_preflight:
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


def _allowed_origin(request: HttpRequest) -> str:
    """Return the value of `Access-Control-Allow-Origin`, empty for a refused origin."""
    origin = request.headers.get("Origin", "")
    return origin if is_allowed_origin(origin) else ""


def is_allowed_origin(origin: str) -> bool:
    """Return whether pages of this origin may call the API: PUBLIC_API_URL, FRONTEND_URL."""
    own = urlsplit(conf.public_url())
    return origin in (f"{own.scheme}://{own.netloc}", *conf.frontend_origins())


def _preflight_answer() -> HttpResponse:
    return HttpResponse(
        status=204,
        headers={
            "Access-Control-Allow-Methods": METHODS,
            "Access-Control-Allow-Headers": REQUEST_HEADERS,
            "Access-Control-Max-Age": MAX_AGE_S,
        },
    )
