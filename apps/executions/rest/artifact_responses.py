"""Responses with the bytes of an artifact, whole or in part, that cannot act in the UI's origin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from django.http import HttpResponse
from django.utils.http import content_disposition_header
from rest_framework.request import Request

from apps.executions.selectors.artifact_files import StoredFile
from apps.http.api import is_not_modified, problem_for
from kernel.errors import PlatformError

# A file that a suite made must not act in the UI's origin.
HARMLESS: Final = {"Content-Security-Policy": "sandbox", "X-Content-Type-Options": "nosniff"}
_MEDIA_TYPE: Final = re.compile(
    r"^[\w.+-]{1,80}/[\w.+-]{1,80}(; ?charset=[\w-]{1,40})?\Z", re.ASCII
)
_UNNAMEABLE: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_RANGE: Final = re.compile(r"^bytes=\s*(\d{0,18})-(\d{0,18})\s*\Z", re.IGNORECASE)
_BYTES: Final = "application/octet-stream"


def file_response(request: Request, file: StoredFile, *, is_shown: bool = False) -> HttpResponse:
    """Return the file, or the part that the request wants; `is_shown`: in the page, not saved."""
    etag = f'"{file.sha256}"'
    if is_not_modified(etag, request.headers.get("If-None-Match", "")):
        return HttpResponse(status=HTTPStatus.NOT_MODIFIED, headers={"ETag": etag})
    try:
        # `If-Range` with another ETag: send everything
        is_current = request.headers.get("If-Range", etag) == etag
        header = request.headers.get("Range", "") if is_current else ""
        part = requested_range(header, size=len(file.body))
    except RangeNotSatisfiable as error:
        fact = PlatformError(str(error), code="range_not_satisfiable")
        response = problem_for(request, fact)
        response["Content-Range"] = f"bytes */{len(file.body)}"
        return response
    return _bytes(file, etag, part, is_shown=is_shown)


class RangeNotSatisfiable(ValueError):
    """The range begins behind the last byte."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes `first` to `last`, both included, from 0."""

    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


def requested_range(header: str, *, size: int) -> ByteRange | None:
    """Return the range that the header `Range` requests (RFC 9110, 14), or None for all bytes.

    Other units, several ranges and invalid values are ignored, as the RFC allows.
    Raise RangeNotSatisfiable.
    """
    match = _RANGE.match(header)
    if match is None or match[1] == match[2] == "":
        return None
    if match[1]:
        first, last = int(match[1]), int(match[2] or size)
        if last < first and match[2]:
            return None
    else:  # the last bytes
        first, last = (max(0, size - int(match[2])), size) if int(match[2]) else (size, size)
    if first >= size:
        raise RangeNotSatisfiable(f"the artifact has {size} bytes")
    return ByteRange(first, min(last, size - 1))


def _bytes(file: StoredFile, etag: str, part: ByteRange | None, *, is_shown: bool) -> HttpResponse:
    name = _UNNAMEABLE.sub("_", file.file_name)
    disposition = content_disposition_header(as_attachment=not is_shown, filename=name)
    headers = {
        **HARMLESS,
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Content-Disposition": disposition or "inline",
    }
    body, status = file.body, HTTPStatus.OK
    if part is not None:
        headers["Content-Range"] = f"bytes {part.first}-{part.last}/{len(body)}"
        body, status = body[part.first : part.last + 1], HTTPStatus.PARTIAL_CONTENT
    headers["Content-Length"] = str(len(body))
    media_type = file.media_type if _MEDIA_TYPE.match(file.media_type) else _BYTES
    return HttpResponse(body, status=status, content_type=media_type, headers=headers)
