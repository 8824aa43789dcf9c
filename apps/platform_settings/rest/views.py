"""`/api/v1/platform-settings` (reference: control-plane 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rest import IsAdmin, IsSignedIn
from apps.http.rest import StrictAPIView, conditional_response
from apps.platform_settings import api
from apps.platform_settings.domain.document import NewSettings
from apps.platform_settings.rest.parsers import PARSERS
from apps.platform_settings.rest.schemas import (
    SettingsDocument,
    SettingsInput,
    SettingsPreview,
)
from kernel.errors import FieldError, InvalidInput


class SettingsView(StrictAPIView):
    parser_classes = PARSERS

    def get_permissions(self) -> list[Any]:
        return [IsAdmin() if self.request.method == "PUT" else IsSignedIn()]

    @extend_schema(
        operation_id="platform_settings_get", responses={200: SettingsDocument, 304: None}
    )
    def get(self, request: Request) -> Response:
        return self._answer(request)

    @extend_schema(
        operation_id="platform_settings_replace",
        request=SettingsInput,
        responses=SettingsDocument,
    )
    def put(self, request: Request) -> Response:
        if_match = request.headers.get("If-Match", "")
        api.replace_settings(request.user, _read_document(request), if_match=if_match)  # type: ignore[arg-type]
        return self._answer(request)

    def _answer(self, request: Request) -> Response:
        document = api.settings_document(request.user)  # type: ignore[arg-type]
        return conditional_response(request, document, etag=api.settings_etag(document))


class SettingsPreviewView(StrictAPIView):
    permission_classes = [IsAdmin]
    parser_classes = PARSERS

    @extend_schema(
        operation_id="platform_settings_preview", request=SettingsInput, responses=SettingsPreview
    )
    def post(self, request: Request) -> Response:
        changes = api.preview_settings(request.user, _read_document(request))  # type: ignore[arg-type]
        answer: SettingsPreview = {
            "changes": [{"key": each.key, "old": each.old, "new": each.new} for each in changes]
        }
        return Response(answer)


def _read_document(request: Request) -> NewSettings:
    """Return the document that a request holds; raise InvalidInput."""
    given = request.data
    if not isinstance(given, Mapping | api.SettingsTree):
        fault = FieldError(code="wrong_type", detail="must be an object")
        raise InvalidInput("the body must be an object", errors=[fault])
    return given
