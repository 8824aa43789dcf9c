"""`platform-settings/registries/{registryId}/sync` and `test` (reference: control-plane 4)."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rest import IsAdmin
from apps.http.rest import DocumentField, StrictAPIView, StrictSerializer
from apps.oci import api
from apps.platform_settings.api import settings_document
from apps.platform_settings.rest import SettingsDocument


class SyncErrorDocument(TypedDict):
    """Why a repository could not be read or pulled; without one, why the registry could not."""

    repository: NotRequired[str]
    code: str
    detail: str


class SyncDocument(TypedDict):
    """What a synchronization found."""

    packages: int
    durationMs: int
    errors: list[SyncErrorDocument]


class SyncedSettings(SettingsDocument):  # type: ignore[misc, valid-type]
    """The settings after a synchronization, with what it found."""

    sync = DocumentField(SyncDocument)


class NoInput(StrictSerializer):
    """An empty body."""


class RegistrySyncView(StrictAPIView):
    permission_classes = [IsAdmin]

    @extend_schema(
        operation_id="platform_settings_sync_registry", request=None, responses=SyncedSettings
    )
    def post(self, request: Request, registry_id: str) -> Response:
        self.body(NoInput)
        result = api.sync_registry(registry_id)
        document = settings_document(request.user)  # type: ignore[arg-type]
        return Response({**document, "sync": sync_document(result)})


class RegistryTest(TypedDict):
    """Whether a registry answers and lets the server in; `code` is empty where it does."""

    registryId: str
    reachable: bool
    code: str
    detail: str
    durationMs: int


class RegistryTestView(StrictAPIView):
    permission_classes = [IsAdmin]

    @extend_schema(
        operation_id="platform_settings_test_registry", request=None, responses=RegistryTest
    )
    def post(self, request: Request, registry_id: str) -> Response:
        self.body(NoInput)
        report = api.test_connection(registry_id)
        answer: RegistryTest = {
            "registryId": registry_id,
            "reachable": report.reachable,
            "code": report.code,
            "detail": report.detail,
            "durationMs": report.duration_ms,
        }
        return Response(answer)


def sync_document(result: api.SyncResult) -> SyncDocument:
    return {
        "packages": result.packages,
        "durationMs": result.duration_ms,
        "errors": [_error_document(error) for error in result.errors],
    }


def _error_document(error: api.RepositoryError) -> SyncErrorDocument:
    document: SyncErrorDocument = {
        "repository": error.repository,
        "code": error.code,
        "detail": error.detail,
    }
    if not error.repository:
        del document["repository"]
    return document
