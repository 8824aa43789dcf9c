"""The last stage before routing: bodies that are too large, and a server that is ending."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.http.json_body import MAX_BODY_BYTES, PayloadTooLarge
from apps.http.middleware.base import AsyncMiddleware
from apps.http.problems import problem_for
from apps.observability.api import request_context
from apps.operations.api import is_draining
from kernel.errors import PlatformError

_HEALTH_ROUTES: Final = frozenset(  # answered until the end
    f"{prefix}/{route}"
    for prefix in ("", "/api/v1/system")
    for route in ("healthz", "readyz", "readyz/{subsystem}")
)


class ShuttingDown(PlatformError):
    code = "shutting_down"


class RequestLimitsMiddleware(AsyncMiddleware):
    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_draining() and request_context().route not in _HEALTH_ROUTES:
            return problem_for(request, ShuttingDown("this server is shutting down; try again"))
        if _is_too_large(request):
            return problem_for(request, PayloadTooLarge())
        return await self.get_response(request)


def _is_too_large(request: HttpRequest) -> bool:
    length = str(request.META.get("CONTENT_LENGTH") or "")
    declared = int(length) if length.isdecimal() and len(length) < 19 else 0  # noqa: PLR2004
    return bool(request.META.get("partita.too_large")) or declared > MAX_BODY_BYTES
