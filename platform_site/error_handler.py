"""The HTTP edge: every error becomes a problem document here, once; for a reader of pages, a page.

Django REST framework's errors come to `handle`; those of Django's own views to `ProblemAnswers`;
what fails before or beside a view (no such path, a broken stage) to the `on_…` functions that
`platform_site.urls` names.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any, Final

from django.core.exceptions import (
    BadRequest,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
)
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from rest_framework import exceptions as drf

from apps.console.api import error_page
from apps.http.api import AsyncMiddleware, PayloadTooLarge, internal_error, problem_for
from apps.http.rest import InvalidParameter, invalid_input
from apps.observability.api import request_context
from apps.operations.api import DatastoreUnavailable, is_store_away
from kernel.errors import NotFound, PlatformError
from kernel.problems import title

logger = logging.getLogger("partita.http")

_NEVER_PAGES: Final = ("/api/", "/mocks/", "/internal/", "/healthz", "/readyz", "/static/")
_DRF_CODES: Final[tuple[tuple[type[drf.APIException], str], ...]] = (
    (drf.NotAuthenticated, "unauthenticated"),
    (drf.AuthenticationFailed, "token_invalid"),
    (drf.PermissionDenied, "admin_required"),
    (drf.NotFound, "not_found"),
    (drf.MethodNotAllowed, "method_not_allowed"),
    (drf.UnsupportedMediaType, "unsupported_media_type"),
    (drf.ParseError, "malformed_json"),
    (drf.Throttled, "rate_limited"),
)
_BARE_CODES: Final = {
    400: "invalid_parameter",
    403: "admin_required",
    404: "not_found",
    405: "method_not_allowed",
    413: "payload_too_large",
    415: "unsupported_media_type",
}


def handle(error: Exception, context: dict[str, Any]) -> HttpResponse:
    """DRF's EXCEPTION_HANDLER."""
    return answer(context["request"], error)


def answer(request: HttpRequest, error: Exception) -> HttpResponse:
    """The problem for any exception; what nobody foresaw is logged with its stack."""
    fact = as_platform_error(error)
    if isinstance(fact, DatastoreUnavailable):
        logger.warning("%s %s: %s", request.method, request_context().route, cause_of(error))
    if fact.problem_code == "internal_error" and fact is not error:
        logger.error("%s %s failed", request.method, request_context().route, exc_info=error)
    return error_response(request, fact)


def error_response(request: HttpRequest, error: PlatformError) -> HttpResponse:
    """Return a page outside the API for those who name `text/html` (browsers), else the problem."""
    wants_page = "text/html" in request.headers.get("Accept", "")
    if wants_page and not request.path.startswith(_NEVER_PAGES):
        try:
            return error_page(request, error)
        except Exception:  # the edge: an error page that fails must not hide the error
            logger.exception("the error page of %s could not be shown", request.path)
    return problem_for(request, error)


def as_platform_error(error: Exception) -> PlatformError:
    if isinstance(error, PlatformError):
        return error
    if isinstance(error, drf.ValidationError):
        return invalid_input(error)
    if isinstance(error, drf.APIException):
        return _from_drf(error)
    if is_store_away(error):
        return DatastoreUnavailable()
    return _from_django(error)


def _from_drf(error: drf.APIException) -> PlatformError:
    for kind, code in _DRF_CODES:
        if isinstance(error, kind):
            wait = getattr(error, "wait", None)
            return PlatformError(str(error.detail), code=code, retry_after_s=wait)
    return internal_error()


def cause_of(error: Exception) -> str:
    """The class of what the driver raised: its words may name addresses and accounts."""
    return type(error.__cause__ or error).__name__


def _from_django(error: Exception) -> PlatformError:
    if isinstance(error, Http404):
        return NotFound("there is nothing at this path")
    if isinstance(error, PermissionDenied):
        return PlatformError("this is for administrators", code="admin_required")
    if isinstance(error, RequestDataTooBig):
        return PayloadTooLarge()
    if isinstance(error, BadRequest | SuspiciousOperation):
        return InvalidParameter("the request cannot be understood")
    return internal_error()


def on_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return answer(request, NotFound("there is nothing at this path"))


def on_bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return answer(request, exception)


def on_forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return answer(request, exception)


def on_server_error(request: HttpRequest) -> HttpResponse:
    """Django has logged the exception with its stack."""
    return error_response(request, internal_error())


class ProblemAnswers(AsyncMiddleware):
    """The innermost stage: exceptions of plain views, and errors that Django left without words."""

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = await self.get_response(request)
        if response.status_code >= HTTPStatus.BAD_REQUEST and not (
            response.streaming or (isinstance(response, HttpResponse) and response.content)
        ):
            return _add_words(request, response)
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse:
        return answer(request, exception)


def _add_words(request: HttpRequest, response: HttpResponseBase) -> HttpResponse:
    code = _BARE_CODES.get(response.status_code, "internal_error")
    problem = problem_for(request, PlatformError(title(code).lower(), code=code))
    for name in ("Allow", "Retry-After"):
        if name in response.headers:
            problem[name] = response.headers[name]
    return problem


def on_csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return error_response(
        request, PlatformError("the CSRF token is missing or wrong", code="csrf_failed")
    )
