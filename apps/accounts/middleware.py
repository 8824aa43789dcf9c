"""The session middleware (reference: control-plane 2)."""

from __future__ import annotations

from asgiref.sync import sync_to_async
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.functional import SimpleLazyObject

from apps.accounts.services.authentication import principal_of


class AuthSessionMiddleware(SessionMiddleware):
    """Sets `request.session` and `request.principal`, which read the store when first used.

    No request is refused here; views require what they need. A request that does not change the
    session stays on the event loop.
    """

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        self.process_request(request)
        response: HttpResponseBase = await self.get_response(request)  # type: ignore[misc]
        if request.session.modified:
            return await sync_to_async(self.process_response)(request, response)  # type: ignore[arg-type]
        return self.process_response(request, response)  # type: ignore[arg-type]

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        principal = SimpleLazyObject(lambda: principal_of(request))
        request.principal = principal  # type: ignore[attr-defined]


class UserMiddleware(AuthenticationMiddleware):
    """Sets `request.user`, Django's, which reads the store when first used."""

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        self.process_request(request)  # here it does no work that would need a thread
        response: HttpResponseBase = await self.get_response(request)  # type: ignore[misc]
        return response


class FlashMiddleware(MessageMiddleware):
    """Keeps Django's messages, such as the admin's, in a signed cookie until the next page."""

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        self.process_request(request)
        response: HttpResponseBase = await self.get_response(request)  # type: ignore[misc]
        return self.process_response(request, response)  # type: ignore[arg-type]
