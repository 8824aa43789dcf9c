"""`/api/v1/auth/tokens` (reference: control-plane 3)."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.domain.api_tokens import TokenScope
from apps.accounts.rest import PrincipalMixin
from apps.accounts.rest.serializers import SCOPES, ApiTokenSerializer
from apps.accounts.rest.workspaces import as_uuid
from apps.accounts.services.api_tokens import (
    api_token_of,
    api_tokens_of,
    create_api_token,
    revoke_api_token,
    revoke_used_token,
)
from apps.http.rest import StrictSerializer, StrictViewSet

_NO_STORE = {"Cache-Control": "no-store"}


class ApiTokenInput(StrictSerializer):
    name = serializers.CharField()
    scope = serializers.ChoiceField(choices=SCOPES)
    expiresInDays = serializers.IntegerField(min_value=1, max_value=365, default=90)


class ApiTokenCreated(ApiTokenSerializer):
    token = serializers.CharField(help_text="shown once")

    def to_representation(self, instance: Any) -> dict[str, Any]:
        return {**ApiTokenSerializer(instance.row).data, "token": instance.token}


class ApiTokenList(serializers.Serializer[Any]):
    tokens = ApiTokenSerializer(many=True)


class ApiTokenViewSet(PrincipalMixin, StrictViewSet):
    """The caller's credentials for programs; an API token may only revoke itself here."""

    lookup_url_kwarg = "token_id"
    lookup_value_converter = "str"

    @extend_schema(operation_id="api_tokens_list", responses=ApiTokenList)
    def list(self, request: Request) -> Response:
        found = api_tokens_of(self.principal)
        return Response(ApiTokenList({"tokens": found}).data, headers=_NO_STORE)

    @extend_schema(
        operation_id="api_tokens_create", request=ApiTokenInput, responses={201: ApiTokenCreated}
    )
    def create(self, request: Request) -> Response:
        body = self.body(ApiTokenInput)
        made = create_api_token(
            self.principal,
            name=body["name"],
            scope=TokenScope(body["scope"]),
            days=body["expiresInDays"],
        )
        return Response(ApiTokenCreated(made).data, status=201, headers=_NO_STORE)

    @extend_schema(operation_id="api_tokens_revoke", responses={204: None})
    def destroy(self, request: Request, token_id: str) -> Response:
        used = api_token_of(self.principal)
        if used is not None and str(used.pk) == token_id:
            revoke_used_token(self.principal)
        else:
            self.principal.require_session()  # before anything is said of the token
            revoke_api_token(self.principal, as_uuid(token_id))
        return Response(status=204)
