"""Async views that only read: `GET` and `HEAD` for anybody, problems as answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed

from apps.http.problems import problem_for
from kernel.errors import PlatformError

View = Callable[..., Awaitable[HttpResponse]]
_METHODS: Final = ("GET", "HEAD", "OPTIONS")


def read_only(view: View) -> Any:
    """Answer GET and HEAD, whatever query a load balancer adds; OPTIONS lists the methods."""

    @wraps(view)
    async def checked(request: HttpRequest, **kwargs: str) -> HttpResponse:
        if request.method == "OPTIONS":
            return HttpResponse(status=204, headers={"Allow": ", ".join(_METHODS)})
        if request.method not in _METHODS:
            return HttpResponseNotAllowed(_METHODS)
        try:
            return await view(request, **kwargs)
        except PlatformError as error:
            return problem_for(request, error)

    return checked
