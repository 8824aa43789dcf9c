"""`/api/v1/auth`: ways to sign in that need an identity provider or mail, and have none here.

They answer as where they are not set up (reference: control-plane 3).
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.domain.errors import Unauthenticated
from apps.accounts.rest import serializers as wire
from apps.accounts.rest.views import PublicView
from apps.accounts.services.limits import RESET, SIGN_IN, limit_by_ip
from kernel.errors import NotFound, PlatformError

_OIDC_DISABLED = "single sign-on is not set up"


class ProvidersView(PublicView):
    @extend_schema(operation_id="auth_sso_providers", responses=wire.ProvidersResponse)
    def get(self, request: Request) -> Response:
        return Response({"providers": []})


class OidcLoginView(PublicView):
    query_parameters = frozenset({"return_url", "flow"})

    @extend_schema(
        operation_id="auth_oidc_login",
        parameters=[OpenApiParameter("return_url", str), OpenApiParameter("flow", str)],
        responses={302: None},
    )
    def get(self, request: Request) -> Response:
        raise NotFound(_OIDC_DISABLED, code="oidc_disabled")


class OidcCallbackView(PublicView):
    """The provider chooses the query parameters; they are not checked."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        APIView.initial(self, request, *args, **kwargs)

    @extend_schema(operation_id="auth_oidc_callback", responses={302: None})
    def get(self, request: Request) -> Response:
        raise NotFound(_OIDC_DISABLED, code="oidc_disabled")


class OidcExchangeView(PublicView):
    @extend_schema(
        operation_id="auth_oidc_exchange",
        request=wire.OidcExchangeInput,
        responses=wire.AuthResponse,
    )
    def post(self, request: Request) -> Response:
        limit_by_ip(request, SIGN_IN)
        self.body(wire.OidcExchangeInput)
        raise Unauthenticated("the one-time code is not valid", code="code_invalid")


class ForgotPasswordView(PublicView):
    @extend_schema(
        operation_id="auth_forgot_password",
        request=wire.ForgotPasswordInput,
        responses=wire.StatusResponse,
    )
    def post(self, request: Request) -> Response:
        limit_by_ip(request, RESET)
        self.body(wire.ForgotPasswordInput)
        raise PlatformError("sending mail is not set up", code="mail_unavailable")


class ResetPasswordView(PublicView):
    @extend_schema(
        operation_id="auth_reset_password",
        request=wire.ResetPasswordInput,
        responses=wire.StatusResponse,
    )
    def post(self, request: Request) -> Response:
        limit_by_ip(request, RESET)
        self.body(wire.ResetPasswordInput)
        raise PlatformError("the reset link is not valid", code="reset_token_invalid")
