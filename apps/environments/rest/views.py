"""`/api/v1/sandboxes`: environments, and their removal (reference: control-plane 17)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rest import IsAdmin, IsSignedIn, PrincipalMixin
from apps.environments import api
from apps.environments.domain.documents import CleanupResult, SnapshotDocument
from apps.http.rest import StrictSerializer, StrictViewSet

FILTERS: Final = (
    OpenApiParameter("status", str, description="comma list, such as Zombie,Degraded"),
    OpenApiParameter("q", str, description="text in an id, suite, owner, profile, name or image"),
)


class ReapInput(StrictSerializer):
    dryRun = serializers.BooleanField(
        required=False, default=False, help_text="count what would be removed, remove nothing"
    )


class ReapAllInput(ReapInput):
    onlyZombies = serializers.BooleanField(
        required=False, default=False, help_text="leave everything that still has its supervisor"
    )


class SandboxViewSet(PrincipalMixin, StrictViewSet):  # the stream is a raw view, in `streams`
    query_parameters: ClassVar[Collection[str] | Mapping[str, Collection[str]]] = {
        "snapshot": frozenset({"status", "q"})
    }

    def get_permissions(self) -> list[Any]:
        return [IsAdmin() if self.action == "reap_all" else IsSignedIn()]

    @extend_schema(
        operation_id="sandboxes_list", parameters=list(FILTERS), responses={200: SnapshotDocument}
    )
    def snapshot(self, request: Request) -> Response:
        wanted = request.query_params
        document = api.snapshot(
            self.principal, status=wanted.get("status", ""), q=wanted.get("q", "")
        )
        return Response(document)

    @extend_schema(operation_id="sandboxes_reap", request=ReapInput, responses={200: CleanupResult})
    def reap(self, request: Request, **path: str) -> Response:
        body = self.body(ReapInput)
        return Response(api.reap(self.principal, path["sandboxId"], dry_run=body["dryRun"]))

    @extend_schema(
        operation_id="sandboxes_reap_all",
        request=ReapAllInput,
        responses={200: CleanupResult},
    )
    def reap_all(self, request: Request) -> Response:
        body = self.body(ReapAllInput)
        result = api.reap_all(
            self.principal, dry_run=body["dryRun"], only_zombies=body["onlyZombies"]
        )
        return Response(result)
