"""The settings of social sign-in."""

from __future__ import annotations

from django.conf import settings


def providers() -> dict[str, tuple[str, ...]]:
    """Return the providers of SOCIAL_PROVIDERS, each with the variables that are not set."""
    return {name: _missing(name) for name in settings.SOCIALACCOUNT_PROVIDERS}


def credentials(provider: str) -> dict[str, str]:
    """Return `client_id` and `secret` of a configured provider."""
    (found,) = settings.SOCIALACCOUNT_PROVIDERS[provider]["APPS"]
    return dict(found)


def callback_url(provider: str) -> str:
    """Return the address that is registered with the provider; it never comes from a request."""
    return f"{settings.PUBLIC_API_URL}/accounts/{provider}/login/callback/"


def frontend_callback_url() -> str:
    """Return the page of a front end that gets a one-time code; empty: sessions start here."""
    return str(settings.OIDC_FRONTEND_CALLBACK_URL)


def return_origins() -> tuple[str, ...]:
    return tuple(settings.FRONTEND_URLS)


def _missing(provider: str) -> tuple[str, ...]:
    given = credentials(provider)
    variables = {"client_id": "CLIENT_ID", "secret": "CLIENT_SECRET"}
    return tuple(
        f"SOCIAL_{provider.upper()}_{variable}"
        for key, variable in variables.items()
        if not given[key]
    )
