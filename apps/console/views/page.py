"""What every page has in common: a session, CSRF protection, errors as pages."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.views.decorators.csrf import csrf_protect

from apps.accounts.api import Principal, authenticate_request
from apps.console.services import dressed, error_page
from apps.system.api import DatastoreUnavailable
from kernel.errors import PlatformError

View = Callable[..., HttpResponse]


def page(view: View) -> View:
    """A page for signed-in readers; `view(request, principal, ...)`.

    Others are sent to `/sign-in?next=<this path>`. A PlatformError becomes an error page.
    """

    @csrf_protect
    @wraps(view)
    def guarded(request: HttpRequest, **parts: str) -> HttpResponse:
        try:
            principal = authenticate_request(request)
        except DatastoreUnavailable:  # says nothing about the credential
            raise
        except PlatformError:  # a credential that is no good any more is as good as none
            principal = None
        if principal is None:
            return _to_sign_in(request)
        return _answer(view, request, principal, parts)

    return guarded


def _answer(
    view: View, request: HttpRequest, principal: Principal, parts: dict[str, str]
) -> HttpResponse:
    try:
        response = view(request, principal, **parts)
    except PlatformError as error:
        return error_page(request, error)
    return dressed(response)


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    """A fragment cannot redirect the page around it, so htmx is told to."""
    if "HX-Request" in request.headers:
        return HttpResponse("Please sign in.", status=401, headers={"HX-Redirect": "/sign-in"})
    return HttpResponseRedirect("/sign-in?" + urlencode({"next": request.get_full_path()}))
