"""Answers with a strong ETag, 304 and 412 (reference: control-plane 1.2)."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from apps.http.domain.etags import is_not_modified, is_precondition_met, strong_etag
from kernel.errors import PlatformError


class PreconditionFailed(PlatformError):
    code = "precondition_failed"


def conditional_response(request: Request, document: Any, *, status: int = 200) -> Response:
    """`document` with its ETag; 304 without a body when `If-None-Match` of a read names it."""
    headers = {"ETag": strong_etag(document)}
    if request.method in ("GET", "HEAD"):
        known = request.headers.get("If-None-Match", "")
        if known and is_not_modified(headers["ETag"], known):
            return Response(status=304, headers=headers)
    return Response(document, status=status, headers=headers)


def require_match(request: Request, document: Any) -> None:
    """Raises PreconditionFailed unless `If-Match` is absent or names the stored `document`.

    Call it inside the transaction that writes.
    """
    if not is_precondition_met(strong_etag(document), request.headers.get("If-Match", "")):
        raise PreconditionFailed("the resource has changed since it was read")
