"""Files of a run: artifacts and its verdicts as JUnit (reference: control-plane 11.1)."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

from django.http import HttpResponse
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from apps.executions import api
from apps.executions.domain.byte_ranges import ByteRange, RangeNotSatisfiable, requested_range
from apps.executions.rest.base import ExecutionsView
from apps.system.api import is_not_modified, problem_for
from kernel.errors import PlatformError

_MEDIA_TYPE: Final = re.compile(
    r"^[\w.+-]{1,80}/[\w.+-]{1,80}(; ?charset=[\w-]{1,40})?\Z", re.ASCII
)
_UNNAMEABLE: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_BYTES: Final = "application/octet-stream"
# A file that a suite made must not act in the UI's origin.
_HARMLESS: Final = {"Content-Security-Policy": "sandbox", "X-Content-Type-Options": "nosniff"}


class ArtifactView(ExecutionsView):
    @extend_schema(
        operation_id="executions_artifact",
        responses={(200, "*/*"): OpenApiTypes.BINARY, (206, "*/*"): OpenApiTypes.BINARY, 304: None},
    )
    def get(self, request: Request, **_path: str) -> HttpResponse:
        file = api.artifact_file(self.principal, self.run_id, str(self.kwargs["artifactId"]))
        etag = f'"{file.sha256}"'
        if is_not_modified(etag, request.headers.get("If-None-Match", "")):
            return HttpResponse(status=HTTPStatus.NOT_MODIFIED, headers={"ETag": etag})
        try:
            part = _part(request, etag, len(file.body))
        except RangeNotSatisfiable as error:
            return _unsatisfiable(request, len(file.body), error)
        return _bytes(file, etag, part)


class JUnitView(ExecutionsView):
    @extend_schema(
        operation_id="executions_junit",
        responses={(200, "application/xml"): OpenApiTypes.STR},
    )
    def get(self, request: Request, **_path: str) -> HttpResponse:
        document = api.junit_document(self.principal, self.run_id)
        return HttpResponse(document, content_type="application/xml", headers=_HARMLESS)


def _part(request: Request, etag: str, size: int) -> ByteRange | None:
    """What `Range` asks for; everything when `If-Range` names another state."""
    if request.headers.get("If-Range", etag) != etag:
        return None
    return requested_range(request.headers.get("Range", ""), size=size)


def _bytes(file: api.StoredFile, etag: str, part: ByteRange | None) -> HttpResponse:
    headers = {
        **_HARMLESS,
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Content-Disposition": _attachment(file.file_name),
    }
    body, status = file.body, HTTPStatus.OK
    if part is not None:
        headers["Content-Range"] = f"bytes {part.first}-{part.last}/{len(body)}"
        body, status = body[part.first : part.last + 1], HTTPStatus.PARTIAL_CONTENT
    headers["Content-Length"] = str(len(body))
    media_type = file.media_type if _MEDIA_TYPE.match(file.media_type) else _BYTES
    return HttpResponse(body, status=status, content_type=media_type, headers=headers)


def _attachment(file_name: str) -> str:
    name = _UNNAMEABLE.sub("_", file_name)
    return content_disposition_header(as_attachment=True, filename=name) or "attachment"


def _unsatisfiable(request: Request, size: int, error: RangeNotSatisfiable) -> HttpResponse:
    fact = PlatformError(str(error), code="range_not_satisfiable")
    response = problem_for(request, fact)
    response["Content-Range"] = f"bytes */{size}"
    return response
