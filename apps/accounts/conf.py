"""The settings of accounts, read on each call, so that tests can override them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings

from apps.accounts.domain.external_identity import ClaimNames

STREAM_TICKET_LIFE = timedelta(seconds=60)
LEEWAY = timedelta(seconds=30)
EXCHANGE_CODE_LIFE = timedelta(seconds=90)
OIDC_STATE_LIFE = timedelta(minutes=10)
RESET_LINK_LIFE = timedelta(minutes=15)
DEVICE_CODE_LIFE = timedelta(minutes=10)
INVITATION_LIFE = timedelta(days=7)
ACCOUNT_CACHE_S = 10.0  # 30 are allowed (reference: control-plane 3)


def jwt_secret() -> str:
    return str(settings.JWT_SECRET)


def jwt_secrets() -> tuple[str, ...]:
    """Return the secret that signs, then those that it replaced."""
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


def is_protected_site() -> bool:
    """Return whether this site is served by https, as every site that is not for development."""
    return bool(settings.SECURE_SITE)


def return_origins() -> tuple[str, ...]:
    """Return the front ends that a sign-in elsewhere may return to, beside this site."""
    return tuple(settings.FRONTEND_URLS)


def encryption_keys() -> tuple[str, ...]:
    """Return the key that encrypts, then those that only decrypt."""
    return tuple(settings.ENCRYPTION_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """The OpenID provider. `missing`: the variables without which it cannot be used."""

    provider_id: str
    provider_name: str
    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    redirect_url: str
    frontend_callback_url: str
    scopes: tuple[str, ...]
    state_cookie: str
    state_secret: str = field(repr=False)
    is_secure: bool
    claims: ClaimNames
    missing: tuple[str, ...]


def oidc() -> OidcSettings | None:
    """Return the OpenID provider, or None while OIDC_ENABLED is false."""
    if not settings.OIDC_ENABLED:
        return None
    required = ("OIDC_ISSUER_URL", "OIDC_CLIENT_ID")
    return OidcSettings(
        provider_id=settings.OIDC_PROVIDER_ID,
        provider_name=settings.OIDC_PROVIDER_NAME,
        issuer=settings.OIDC_ISSUER_URL,
        client_id=settings.OIDC_CLIENT_ID,
        client_secret=settings.OIDC_CLIENT_SECRET,
        redirect_url=settings.OIDC_REDIRECT_URL,
        frontend_callback_url=settings.OIDC_FRONTEND_CALLBACK_URL,
        scopes=settings.OIDC_SCOPES,
        state_cookie=settings.OIDC_STATE_COOKIE_NAME,
        state_secret=settings.AUTH_STATE_SECRET,
        is_secure=settings.SECURE_SITE,
        claims=ClaimNames(
            email=settings.OIDC_EMAIL_CLAIM,
            name=settings.OIDC_NAME_CLAIM,
            groups=settings.OIDC_GROUPS_CLAIM,
            admin_groups=frozenset(group.lower() for group in settings.OIDC_ADMIN_GROUPS),
        ),
        missing=tuple(name for name in required if not getattr(settings, name)),
    )
