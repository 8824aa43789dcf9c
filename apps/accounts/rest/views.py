"""`/api/v1/auth`: passwords, tokens, tickets (reference: control-plane 3).

Those of sign-in at a provider are in `single_sign_on`.
"""

from __future__ import annotations

from typing import Final, TypedDict

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import conf
from apps.accounts.rest import PrincipalMixin
from apps.accounts.rest import serializers as wire
from apps.accounts.selectors import get_user, offers_sign_up, sign_in_providers
from apps.accounts.services.api_tokens import api_token_of
from apps.accounts.services.authentication import record_actor
from apps.accounts.services.password_reset import offers_reset, request_reset, reset_password
from apps.accounts.services.rate_limits import (
    RESET,
    SIGN_IN,
    SIGN_UP,
    STREAM_TICKETS,
    limit_by_ip,
    limit_rate,
)
from apps.accounts.services.sign_in import sign_in
from apps.accounts.services.sign_up import sign_up
from apps.accounts.services.tickets import issue_ticket
from apps.accounts.services.token_pairs import (
    TokenPair,
    issue_tokens,
    refresh_tokens,
    revoke_credential,
    revoke_everything,
)
from apps.http.api import client_ip
from apps.http.rest import StrictAPIView

NO_STORE: Final = {"Cache-Control": "no-store"}  # RFC 6749, 5.1


class StatusDocument(TypedDict):
    status: str


class PublicView(StrictAPIView):
    """Ignores credentials: an expired one must not prevent a sign-in."""

    authentication_classes = []
    permission_classes = []


class AccountView(PrincipalMixin, StrictAPIView):
    """Requires a principal, which is the default."""


class AuthConfigView(PublicView):
    @extend_schema(operation_id="auth_config", responses=wire.AuthConfigResponse)
    def get(self, request: Request) -> Response:
        shown = wire.AuthConfigResponse(
            {
                "passwordAuthEnabled": conf.password_sign_in_enabled(),
                "signUpEnabled": offers_sign_up(),
                "passwordResetEnabled": offers_reset(),
                "providers": sign_in_providers(),
            }
        )
        return Response(shown.data)


class SignUpView(PublicView):
    @extend_schema(
        operation_id="auth_sign_up",
        request=wire.SignUpInput,
        responses={201: wire.AuthResponse},
    )
    def post(self, request: Request) -> Response:
        limit_by_ip(request, SIGN_UP)
        body = self.body(wire.SignUpInput)
        user = sign_up(
            full_name=body["fullName"],
            email=body["email"],
            password=body["password"],
            invitation=body.get("invitation", ""),
        )
        return signed_in_response(issue_tokens(user), status=201)


class SignInView(PublicView):
    @extend_schema(
        operation_id="auth_sign_in", request=wire.SignInInput, responses=wire.AuthResponse
    )
    def post(self, request: Request) -> Response:
        limit_by_ip(request, SIGN_IN)
        body = self.body(wire.SignInInput)
        user = sign_in(
            email=body["email"],
            password=body["password"],
            ip=client_ip(request),
            code=body.get("code", ""),
        )
        return signed_in_response(issue_tokens(user))


class RefreshView(PublicView):
    @extend_schema(
        operation_id="auth_refresh", request=wire.RefreshInput, responses=wire.AuthResponse
    )
    def post(self, request: Request) -> Response:
        limit_by_ip(request, SIGN_IN)
        return signed_in_response(refresh_tokens(self.body(wire.RefreshInput)["refreshToken"]))


class MeView(AccountView):
    @extend_schema(operation_id="auth_me", responses=wire.MeResponse)
    def get(self, request: Request) -> Response:
        user = get_user(self.principal.user_id)
        shown = wire.MeResponse(
            {
                "user": user,
                "role": self.principal.role,
                "expires_at": self.principal.expires_at,
                "token": api_token_of(self.principal),
            }
        )
        return Response(shown.data, headers=NO_STORE)


class SignOutView(AccountView):
    @extend_schema(
        operation_id="auth_sign_out", request=wire.SignOutInput, responses=StatusDocument
    )
    def post(self, request: Request) -> Response:
        self.body(wire.SignOutInput)
        revoke_credential(self.principal)
        return _status_response("signed-out")


class SignOutEverywhereView(AccountView):
    @extend_schema(
        operation_id="auth_sign_out_everywhere",
        request=wire.SignOutInput,
        responses=StatusDocument,
    )
    def post(self, request: Request) -> Response:
        self.body(wire.SignOutInput)
        self.principal.require_session()
        revoke_everything(self.principal.user_id)
        return _status_response("signed-out")


class StreamTicketsView(AccountView):
    @extend_schema(
        operation_id="auth_stream_tickets",
        request=wire.StreamTicketInput,
        responses={201: wire.StreamTicketResponse},
    )
    def post(self, request: Request) -> Response:
        limit_rate(STREAM_TICKETS.bucket, self.principal.key, STREAM_TICKETS.per_minute)
        path = self.body(wire.StreamTicketInput).get("path", "")
        ticket, expires_at = issue_ticket(self.principal, path)
        shown = wire.StreamTicketResponse({"ticket": ticket, "expires_at": expires_at})
        return Response(shown.data, status=201, headers=NO_STORE)


class ForgotPasswordView(PublicView):
    @extend_schema(
        operation_id="auth_forgot_password",
        request=wire.ForgotPasswordInput,
        responses=StatusDocument,
    )
    def post(self, request: Request) -> Response:
        limit_by_ip(request, RESET)
        request_reset(self.body(wire.ForgotPasswordInput)["email"])
        return _status_response("ok")


class ResetPasswordView(PublicView):
    @extend_schema(
        operation_id="auth_reset_password",
        request=wire.ResetPasswordInput,
        responses=StatusDocument,
    )
    def post(self, request: Request) -> Response:
        limit_by_ip(request, RESET)
        body = self.body(wire.ResetPasswordInput)
        reset_password(body["token"], body["password"])
        return _status_response("ok")


def _status_response(status: str) -> Response:
    answer: StatusDocument = {"status": status}
    return Response(answer)


def signed_in_response(pair: TokenPair, *, status: int = 200) -> Response:
    record_actor(pair.user.id, pair.user.workspace_id, is_admin=pair.user.is_admin)
    return Response(wire.AuthResponse(pair).data, status=status, headers=NO_STORE)
