"""The settings of accounts, read on each call, so that tests can override them."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings

STREAM_TICKET_LIFE = timedelta(seconds=60)
LEEWAY = timedelta(seconds=30)
INVITATION_LIFE = timedelta(days=7)
ACCOUNT_CACHE_S = 10.0  # 30 are allowed (reference: control-plane 3)


def jwt_secret() -> str:
    return str(settings.JWT_SECRET)


def jwt_secrets() -> tuple[str, ...]:
    """Return the secret that signs, then those that only verify."""
    return (jwt_secret(), *settings.JWT_PREVIOUS_SECRETS)


def access_life() -> timedelta:
    return timedelta(seconds=settings.AUTH_ACCESS_TTL_S)


def refresh_life() -> timedelta:
    return timedelta(seconds=settings.AUTH_REFRESH_TTL_S)


def password_sign_in_enabled() -> bool:
    return bool(settings.AUTH_PASSWORD_LOGIN_ENABLED)


def sign_up_enabled() -> bool | None:
    """Return the setting; None: as long as no administrator exists."""
    enabled: bool | None = settings.AUTH_SIGNUP_ENABLED
    return enabled


def seed_admin() -> tuple[str, str]:
    """Return email address and password of the first administrator, empty when not set."""
    return settings.ADMIN_EMAIL, settings.ADMIN_PASSWORD


def site_url() -> str:
    """Return where people open the pages."""
    return str(next(iter(settings.FRONTEND_URLS), settings.PUBLIC_API_URL)).rstrip("/")


def session_cookie_name() -> str:
    return str(settings.SESSION_COOKIE_NAME)
