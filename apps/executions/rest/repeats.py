"""`/api/v1/executions/{id}/repeats`: steps that run again in the kept environment.

(reference: control-plane 11.8)
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping
from typing import ClassVar, Final

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api import Principal, authenticate_stream, limit_rate
from apps.accounts.rest import PrincipalMixin
from apps.executions import api
from apps.executions.domain.repeats import RepeatRequest
from apps.executions.rest import parameters
from apps.executions.rest.artifact_responses import file_response
from apps.executions.rest.streams import (
    on_request_thread,
    only_get,
    repeat_frames,
    stream_response,
)
from apps.executions.selectors.repeats import (
    NEWEST_REPEATS_FIRST,
    RepeatDocument,
    get_repeat,
    list_repeats,
    repeat_detail,
    repeat_documents,
    repeat_file,
)
from apps.executions.services.repeats import cancel_repeat, files_of_archive, repeat_step
from apps.http.rest import (
    PAGING,
    StrictSerializer,
    StrictViewSet,
    page_of,
    paginate_queryset,
    refuse_unknown_parameters,
)
from apps.streams import api as streams
from kernel.errors import FieldError, InvalidInput
from kernel.wire_types import Count

REPEATS: Final = "repeats"
REPEATS_A_MINUTE: Final = 60
_DOCUMENT: Final[OpenApiResponse] = OpenApiResponse(RepeatDocument, "the repeat")


class RepeatInput(StrictSerializer):
    stepId = serializers.CharField(max_length=300, help_text="id of the step, or its name")
    command = serializers.CharField(
        max_length=10_000,
        required=False,
        allow_blank=True,
        allow_null=True,
        default="",
        help_text="lines for the `sh` of the image instead of what the step runs",
    )
    env = serializers.DictField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False),
        required=False,
        allow_null=True,
        default=dict,
        help_text="variables that are added or replaced; only their names are shown later",
    )
    contentBase64 = serializers.CharField(
        required=False,
        allow_null=True,
        default="",
        help_text="tar.gz of a suite's folder, whose files replace those of the step",
    )


class RepeatViewSet(PrincipalMixin, StrictViewSet):  # the log is a raw view, below
    query_parameters: ClassVar[Collection[str] | Mapping[str, Collection[str]]] = {"list": PAGING}

    @property
    def run_id(self) -> str:
        return str(self.kwargs["executionId"])

    @property
    def repeat_id(self) -> str:
        return str(self.kwargs["repeatId"])

    @extend_schema(
        operation_id="executions_repeats",
        parameters=parameters.PAGING_PARAMETERS,
        responses=page_of("RepeatPage", repeats=list[RepeatDocument], total=Count),
    )
    def list(self, request: Request, **_path: str) -> Response:
        rows = list_repeats(self.principal, self.run_id)
        page = paginate_queryset(request, rows, order=NEWEST_REPEATS_FIRST)
        documents = repeat_documents(page.items, self.run_id)
        return Response(page.as_dict("repeats", documents, total=rows.count()))

    @extend_schema(
        operation_id="executions_repeat", request=RepeatInput, responses={201: _DOCUMENT}
    )
    def create(self, _request: Request, **_path: str) -> Response:
        api.get_execution(self.principal, self.run_id)
        limit_rate(REPEATS, self.principal.key, REPEATS_A_MINUTE)
        body = self.body(RepeatInput)
        content = body["contentBase64"]
        wanted = RepeatRequest(
            step=body["stepId"],
            command=body["command"] or "",
            env=body["env"] or {},
            files=files_of_archive(_decode(content)) if content else None,
        )
        document = repeat_step(self.principal, self.run_id, wanted)
        return Response(document, status=201, headers={"Location": document["href"]})

    @extend_schema(operation_id="executions_repeat_detail", responses={200: _DOCUMENT})
    def retrieve(self, _request: Request, **_path: str) -> Response:
        row = get_repeat(self.principal, self.run_id, self.repeat_id)
        return Response(repeat_detail(row, self.run_id))

    @extend_schema(
        operation_id="executions_repeat_cancel", request=None, responses={202: _DOCUMENT}
    )
    def cancel(self, _request: Request, **_path: str) -> Response:
        document = cancel_repeat(self.principal, self.run_id, self.repeat_id)
        return Response(document, status=202)

    @extend_schema(
        operation_id="executions_repeat_artifact",
        responses={(200, "*/*"): OpenApiTypes.BINARY, (206, "*/*"): OpenApiTypes.BINARY, 304: None},
    )
    def artifact(self, request: Request, **path: str) -> HttpResponse:
        file = repeat_file(self.principal, self.run_id, self.repeat_id, path["artifactId"])
        return file_response(request, file)


def _decode(content: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        detail = "contentBase64 must be the base64 of a tar.gz (RFC 4648, section 4)"
        error = FieldError(pointer="/contentBase64", code="invalid_value", detail=detail)
        raise InvalidInput(detail, errors=[error]) from None


@only_get
async def logs(request: HttpRequest, **path: str) -> HttpResponseBase:
    """Stream the log lines of a repeat."""
    after, principal = await on_request_thread(lambda: _admit(request, path))
    frames = repeat_frames(path["repeatId"], after)
    return await stream_response(request, frames, principal, "repeat-logs")


def _admit(request: HttpRequest, path: Mapping[str, str]) -> tuple[int, Principal]:
    principal = authenticate_stream(request, request.path)
    refuse_unknown_parameters(request.GET, {"since", "token"})
    get_repeat(principal, path["executionId"], path["repeatId"])
    return streams.resume_point(request), principal
