"""Problem documents as answers (RFC 9457; reference: control-plane 1.1)."""

from __future__ import annotations

import json

from django.http import HttpRequest, HttpResponse

from apps.observability.api import request_context
from kernel.errors import PlatformError
from kernel.problems import problem_document, problem_headers

PROBLEM_JSON = "application/problem+json"


def problem_response(
    error: PlatformError, *, instance: str = "", request_id: str = ""
) -> HttpResponse:
    """The answer for `error`; `request_id` defaults to the current request's."""
    document = problem_document(
        error, instance=instance, request_id=request_id or request_context().request_id
    )
    response = HttpResponse(
        json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace"),
        status=document["status"],
        content_type=PROBLEM_JSON,
    )
    for name, value in problem_headers(error).items():
        response[name] = value
    return response


def problem_for(request: HttpRequest, error: PlatformError) -> HttpResponse:
    return problem_response(error, instance=request.path)


def internal_error() -> PlatformError:
    """For what nobody foresaw: names the log's entry and nothing of the exception."""
    return PlatformError(
        f"an internal error occurred; the log has it under {request_context().request_id}",
        code="internal_error",
    )
