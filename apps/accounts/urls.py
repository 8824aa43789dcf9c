"""Paths below `/api/v1/`: sign-in, workspaces, invitations."""

from __future__ import annotations

from django.urls import path
from rest_framework.routers import SimpleRouter

from apps.accounts.rest import (
    api_tokens,
    ci,
    device_authorization,
    single_sign_on,
    views,
    workspaces,
)

_router = SimpleRouter(trailing_slash=False, use_regex_path=False)
_router.register("workspaces", workspaces.WorkspaceViewSet, "workspaces")
_router.register("workspaces/<str:workspace_id>/members", workspaces.MemberViewSet, "members")
_router.register(
    "workspaces/<str:workspace_id>/invitations", workspaces.InvitationViewSet, "invitations"
)
_router.register("auth/tokens", api_tokens.ApiTokenViewSet, "api-tokens")
_router.register("invitations", workspaces.InvitedViewSet, "invited")

app_name = "accounts"
urlpatterns = [
    path("auth/config", views.AuthConfigView.as_view(), name="config"),
    path("auth/sign-up", views.SignUpView.as_view(), name="sign-up"),
    path("auth/sign-in", views.SignInView.as_view(), name="sign-in"),
    path("auth/ci", ci.CiSessionView.as_view(), name="ci"),
    path("auth/refresh", views.RefreshView.as_view(), name="refresh"),
    path("auth/device", device_authorization.DeviceView.as_view(), name="device"),
    path("auth/device/token", device_authorization.DeviceTokenView.as_view(), name="device-token"),
    path("auth/me", views.MeView.as_view(), name="me"),
    path("auth/sign-out", views.SignOutView.as_view(), name="sign-out"),
    path(
        "auth/sign-out-everywhere",
        views.SignOutEverywhereView.as_view(),
        name="sign-out-everywhere",
    ),
    path("auth/stream-tickets", views.StreamTicketsView.as_view(), name="stream-tickets"),
    path("auth/sso/providers", single_sign_on.ProvidersView.as_view(), name="sso-providers"),
    path("auth/oidc/login", single_sign_on.OidcLoginView.as_view(), name="oidc-login"),
    path("auth/oidc/callback", single_sign_on.OidcCallbackView.as_view(), name="oidc-callback"),
    path("auth/oidc/exchange", single_sign_on.OidcExchangeView.as_view(), name="oidc-exchange"),
    path("auth/forgot-password", views.ForgotPasswordView.as_view(), name="forgot-password"),
    path("auth/reset-password", views.ResetPasswordView.as_view(), name="reset-password"),
    *_router.urls,
]
