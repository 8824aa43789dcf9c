"""The id that a request carries through logs, spans, audit and problems."""

from __future__ import annotations

import re

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.http.middleware.base import AsyncMiddleware
from apps.observability.api import request_context

_TAKEN = re.compile(r"[A-Za-z0-9._/-]{1,128}")


class RequestIdMiddleware(AsyncMiddleware):
    """Takes `X-Request-Id` when it is well formed, else keeps the fresh one; always echoes it."""

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        context = request_context()
        given = request.headers.get("X-Request-Id", "")
        if _TAKEN.fullmatch(given):
            context.request_id = given
        response = await self.get_response(request)
        response["X-Request-Id"] = context.request_id
        return response
