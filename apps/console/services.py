"""The headers of all pages, and the error page."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.api import principal_of
from apps.observability.api import request_context
from kernel.errors import PlatformError
from kernel.problems import PROBLEMS, problem_headers, title

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'self'; script-src 'self'; style-src 'self'; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# The principal is not read from a store that may be the cause of the error.
_STORE_ERRORS: Final = ("internal_error", "datastore_unavailable")
_HEADLINES: Final = {
    "internal_error": "Something went wrong on the server",
    "csrf_failed": "This form is out of date",
    "not_found": "Page not found",
    "execution_not_found": "Run not found",
    "suite_not_found": "Suite not found",
    "package_not_found": "Package not found",
}


def error_page(request: HttpRequest, error: PlatformError) -> HttpResponse:
    """Render the error as a page with its code and the request id.

    Status and headers are those of the problem document (reference: control-plane 1.1).
    """
    code = error.problem_code
    context = {
        "code": code,
        "status": PROBLEMS[code],
        "headline": _HEADLINES.get(code, title(code)),
        "detail": _sentence(error),
        "request_id": request_context().request_id,
        "principal": None if code in _STORE_ERRORS else principal_of(request),
    }
    response = render(request, "console/error.html", context, status=PROBLEMS[code])
    for name, value in problem_headers(error).items():
        response[name] = value
    return with_page_headers(response)


def _sentence(error: PlatformError) -> str:
    """Return the detail as a sentence; the name of a parameter at its start stays as it is."""
    text = error.detail
    if error.problem_code != "invalid_parameter":
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def with_page_headers(response: HttpResponse) -> HttpResponse:
    """Forbid caches, inline scripts and inline styles, unless the view set these headers."""
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
    return response
