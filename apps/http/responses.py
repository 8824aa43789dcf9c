"""Answers: problem documents (RFC 9457), entity tags (RFC 9110) and views that only read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.utils.http import parse_etags
from django.views.decorators.csrf import csrf_exempt

from apps.observability.api import request_context
from kernel.errors import PlatformError
from kernel.problems import problem_document, problem_headers

View = Callable[..., Awaitable[HttpResponse]]
PROBLEM_JSON: Final = "application/problem+json"
_READ_METHODS: Final = ("GET", "HEAD", "OPTIONS")


def problem_for(request: HttpRequest, error: PlatformError) -> HttpResponse:
    """Return the answer for `error` (reference: control-plane 1.1)."""
    document = problem_document(
        error, instance=request.path, request_id=request_context().request_id
    )
    return HttpResponse(
        json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace"),
        status=document["status"],
        content_type=PROBLEM_JSON,
        headers=problem_headers(error),
    )


def internal_error() -> PlatformError:
    """For what nobody foresaw: names the log's entry and nothing of the exception."""
    return PlatformError(
        f"an internal error occurred; the log has it under {request_context().request_id}",
        code="internal_error",
    )


def read_only(view: View) -> Any:
    """Answer GET and HEAD for anybody, whatever query a load balancer adds; problems as answers.

    OPTIONS lists the methods.
    """

    @csrf_exempt  # other methods get 405
    @wraps(view)
    async def wrapper(request: HttpRequest, **kwargs: str) -> HttpResponse:
        if request.method == "OPTIONS":
            return HttpResponse(status=204, headers={"Allow": ", ".join(_READ_METHODS)})
        if request.method not in _READ_METHODS:
            return HttpResponseNotAllowed(_READ_METHODS)
        try:
            return await view(request, **kwargs)
        except PlatformError as error:
            return problem_for(request, error)

    return wrapper


def strong_etag(document: Any) -> str:
    """A quoted digest of a JSON document, the same for equal documents whatever the key order."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def is_not_modified(etag: str, if_none_match: str) -> bool:
    """Weak comparison: the tag, its weak form or `*` is listed."""
    return not {"*", etag, f"W/{etag}"}.isdisjoint(parse_etags(if_none_match))


def is_precondition_met(etag: str, if_match: str) -> bool:
    """Strong comparison: the tag or `*` is listed; an absent header is always met."""
    return not if_match.strip() or not {"*", etag}.isdisjoint(parse_etags(if_match))
