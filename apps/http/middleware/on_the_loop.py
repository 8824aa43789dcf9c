"""Django's own stages without a hop to a thread.

Django calls the hooks of its middlewares in a thread, one hop each; these do no work that needs
one. A thread would also stay with each stream until it ends. `ControlPlaneHandler` puts them in
the place of those that `settings.MIDDLEWARE` names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.security import SecurityMiddleware

_CHECKED: Final = ("POST", "PUT", "PATCH", "DELETE")


class Security(SecurityMiddleware):
    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        refusal: HttpResponseBase | None = self.process_request(request)
        response = refusal or await self.get_response(request)  # type: ignore[misc]
        return self.process_response(request, response)  # type: ignore[arg-type]


class XFrameOptions(XFrameOptionsMiddleware):
    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        response = await self.get_response(request)  # type: ignore[misc]
        return self.process_response(request, response)


class Csrf(CsrfViewMiddleware):
    """A form is read, and the page of a refusal rendered, in a thread.

    Methods that no view takes get the view's 405: browsers send them to no other site unasked.
    """

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        self.process_request(request)
        response = await self.get_response(request)  # type: ignore[misc]
        return self.process_response(request, response)

    async def process_view(  # type: ignore[override]
        self, request: HttpRequest, view: Callable[..., Any], *arguments: Any
    ) -> HttpResponseBase | None:
        check = super().process_view
        if request.method not in _CHECKED or getattr(view, "csrf_exempt", False):
            return None
        return await sync_to_async(check)(request, view, *arguments)


REPLACED: Final = {
    "django.middleware.security.SecurityMiddleware": f"{__name__}.Security",
    "django.middleware.clickjacking.XFrameOptionsMiddleware": f"{__name__}.XFrameOptions",
    "django.middleware.csrf.CsrfViewMiddleware": f"{__name__}.Csrf",
}
