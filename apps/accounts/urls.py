"""Paths below `/api/v1/auth/`."""

from __future__ import annotations

from django.urls import path

from apps.accounts.rest import views

app_name = "accounts"
urlpatterns = [
    path("config", views.AuthConfigView.as_view(), name="config"),
    path("sign-up", views.SignUpView.as_view(), name="sign-up"),
    path("sign-in", views.SignInView.as_view(), name="sign-in"),
    path("refresh", views.RefreshView.as_view(), name="refresh"),
    path("me", views.MeView.as_view(), name="me"),
    path("sign-out", views.SignOutView.as_view(), name="sign-out"),
    path("stream-tickets", views.StreamTicketsView.as_view(), name="stream-tickets"),
    path("sso/providers", views.ProvidersView.as_view(), name="sso-providers"),
    path("oidc/login", views.OidcLoginView.as_view(), name="oidc-login"),
    path("oidc/callback", views.OidcCallbackView.as_view(), name="oidc-callback"),
    path("oidc/exchange", views.OidcExchangeView.as_view(), name="oidc-exchange"),
    path("forgot-password", views.ForgotPasswordView.as_view(), name="forgot-password"),
    path("reset-password", views.ResetPasswordView.as_view(), name="reset-password"),
]
