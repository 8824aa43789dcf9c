"""`/api/v1/auth/ci`: a CI job's own token for a short session (reference: control-plane 3)."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.domain.roles import Role
from apps.accounts.rest.serializers import Instant
from apps.accounts.rest.views import NO_STORE, PublicView
from apps.accounts.services.ci_exchange import begin_ci_session
from apps.accounts.services.rate_limits import CI, limit_by_ip
from apps.http.rest import StrictSerializer


class CiTokenInput(StrictSerializer):
    token = serializers.CharField(help_text="the OIDC token that the CI system gave the job")


class CiSessionResponse(serializers.Serializer[Any]):
    token = serializers.CharField(help_text="a bearer token, shown once")
    expiresAt = Instant(source="row.expires_at")
    workspaceId = serializers.UUIDField(source="row.workspace_id")
    role = serializers.ChoiceField(choices=[role.value for role in Role], source="row.role")
    suites = serializers.ListField(child=serializers.CharField(), source="row.suites")
    rule = serializers.CharField(source="row.rule_name")
    launchedBy = serializers.CharField(source="row.job", help_text="as its runs say it")


class CiSessionView(PublicView):
    @extend_schema(
        operation_id="auth_ci",
        description="Exchange a CI job's own OIDC token, once, for a short session by the rules "
        "of `ciTrust`.",
        request=CiTokenInput,
        responses={201: CiSessionResponse},
    )
    def post(self, request: Request) -> Response:
        limit_by_ip(request, CI)
        session = begin_ci_session(self.body(CiTokenInput)["token"])
        return Response(CiSessionResponse(session).data, status=201, headers=NO_STORE)
