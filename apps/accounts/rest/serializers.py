"""Bodies of `/api/v1/auth` (reference: control-plane 3)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rest_framework import serializers

from apps.accounts.domain.api_tokens import TokenScope
from apps.accounts.domain.roles import Role
from apps.http.rest import StrictSerializer
from kernel.clock import rfc3339

SCOPES = [scope.value for scope in TokenScope]


class Instant(serializers.DateTimeField):
    """A time such as `2026-01-02T03:04:05.123Z`."""

    def to_representation(self, value: datetime) -> str:
        return rfc3339(value)


class SparseSerializer(serializers.Serializer[Any]):
    """A document that leaves out what does not apply: empty texts and null."""

    def to_representation(self, instance: Any) -> dict[str, Any]:
        whole = super().to_representation(instance)
        return {name: value for name, value in whole.items() if value not in ("", None)}


class SignUpInput(StrictSerializer):
    fullName = serializers.CharField(allow_blank=True)
    email = serializers.CharField(allow_blank=True)
    password = serializers.CharField(allow_blank=True, trim_whitespace=False)
    invitation = serializers.CharField(
        required=False, help_text="the token of an invitation: join its workspace"
    )


class SignInInput(StrictSerializer):
    email = serializers.CharField()
    password = serializers.CharField(trim_whitespace=False)
    code = serializers.CharField(
        required=False, help_text="of the authenticator app, or a recovery code"
    )


class RefreshInput(StrictSerializer):
    refreshToken = serializers.CharField()


class SignOutInput(StrictSerializer):
    """An empty body."""


class StreamTicketInput(StrictSerializer):
    path = serializers.CharField(
        required=False, help_text="the path of a streaming route; without it, any stream"
    )


class OidcExchangeInput(StrictSerializer):
    code = serializers.CharField()


class ForgotPasswordInput(StrictSerializer):
    email = serializers.CharField()


class ResetPasswordInput(StrictSerializer):
    token = serializers.CharField()
    password = serializers.CharField(trim_whitespace=False)


class UserSerializer(serializers.Serializer[Any]):
    userId = serializers.UUIDField(source="id")
    workspaceId = serializers.UUIDField(source="workspace_id")
    username = serializers.CharField()
    email = serializers.CharField()
    fullName = serializers.CharField(source="full_name")
    isAdmin = serializers.BooleanField(source="is_admin")
    createdAt = Instant(source="created_at")


class WorkspaceSerializer(serializers.Serializer[Any]):
    workspaceId = serializers.UUIDField(source="id")
    slug = serializers.CharField()
    name = serializers.CharField()
    createdAt = Instant(source="created_at")


class AuthResponse(serializers.Serializer[Any]):
    """The serialized form of a TokenPair."""

    token = serializers.CharField()
    expiresAt = Instant(source="expires_at")
    refreshToken = serializers.CharField(source="refresh_token")
    refreshExpiresAt = Instant(source="refresh_expires_at")
    user = UserSerializer()
    workspace = WorkspaceSerializer(source="user.workspace")


class ApiTokenSerializer(SparseSerializer):
    tokenId = serializers.UUIDField(source="id")
    name = serializers.CharField()
    scope = serializers.ChoiceField(choices=SCOPES)
    createdAt = Instant(source="created_at")
    expiresAt = Instant(source="expires_at")
    lastUsedAt = Instant(source="last_used_at", required=False)


class MeResponse(SparseSerializer):
    user = UserSerializer()
    workspace = WorkspaceSerializer(source="user.workspace")
    role = serializers.ChoiceField(choices=[role.value for role in Role])
    expiresAt = Instant(source="expires_at")
    token = ApiTokenSerializer(required=False, help_text="of a call by an API token")


class StreamTicketResponse(serializers.Serializer[Any]):
    ticket = serializers.CharField()
    expiresAt = Instant(source="expires_at")


class ProviderSerializer(SparseSerializer):
    providerId = serializers.CharField(source="provider_id")
    name = serializers.CharField()
    buttonLabel = serializers.CharField(source="button_label")
    enabled = serializers.BooleanField()
    startUrl = serializers.CharField(source="start_url", required=False)
    hint = serializers.CharField(required=False)


class ProvidersResponse(serializers.Serializer[Any]):
    providers = ProviderSerializer(many=True)


class AuthConfigResponse(ProvidersResponse):
    passwordAuthEnabled = serializers.BooleanField()
    signUpEnabled = serializers.BooleanField()
    passwordResetEnabled = serializers.BooleanField()
