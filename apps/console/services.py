"""What all pages share: their headers, and errors in the same look."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.api import Principal, principal_of
from apps.system.api import request_context
from kernel.errors import PlatformError
from kernel.problems import PROBLEMS, problem_headers, title

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'self'; script-src 'self'; style-src 'self'; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADLINES: Final = {
    "internal_error": "Something broke on our side",
    "csrf_failed": "This form is out of date",
    "not_available": "Not in this release",
    "not_found": "There is no such page",
    "execution_not_found": "There is no such run",
    "suite_not_found": "There is no such suite",
}


def error_page(request: HttpRequest, error: PlatformError) -> HttpResponse:
    """The error as a page in the look of all others, with its code and the request id.

    Status and headers are those of the problem document (reference: control-plane 1.1).
    """
    code = error.problem_code
    facts = {
        "code": code,
        "status": PROBLEMS[code],
        "headline": _HEADLINES.get(code, title(code)),
        "detail": error.detail,
        "request_id": request_context().request_id,
        "principal": _principal(request, code),
    }
    response = render(request, "console/error.html", facts, status=PROBLEMS[code])
    for name, value in problem_headers(error).items():
        response[name] = value
    return dressed(response)


def dressed(response: HttpResponse) -> HttpResponse:
    """The headers of every page: not kept by caches, no inline script and no inline style."""
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
    return response


def _principal(request: HttpRequest, code: str) -> Principal | None:
    """Who reads the page, for its header; not asked while the store may be the trouble."""
    if code in ("internal_error", "datastore_unavailable"):
        return None
    return principal_of(request)
