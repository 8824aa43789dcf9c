"""The last stage before routing: bodies that are too large, and a server that is ending."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.system.domain.context import request_context
from apps.system.domain.health_routes import is_health_route
from apps.system.domain.lifecycle import is_draining
from apps.system.http.json_body import MAX_BODY_BYTES, PayloadTooLarge
from apps.system.http.problems import problem_for
from apps.system.pipeline.stage import Stage
from kernel.errors import PlatformError


class ShuttingDown(PlatformError):
    code = "shutting_down"


class Gate(Stage):
    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_draining() and not is_health_route(request_context().route):
            return problem_for(request, ShuttingDown("this server is shutting down; try again"))
        if _is_too_large(request):
            return problem_for(request, PayloadTooLarge())
        return await self.get_response(request)


def _is_too_large(request: HttpRequest) -> bool:
    length = str(request.META.get("CONTENT_LENGTH") or "")
    declared = int(length) if length.isdecimal() and len(length) < 19 else 0  # noqa: PLR2004
    return bool(request.META.get("partita.too_large")) or declared > MAX_BODY_BYTES
