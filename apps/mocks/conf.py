"""The settings of mocks."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings


def shared_secret() -> str:
    """Return what the resolver and shared spaces ask for, "" for nothing."""
    return str(settings.MOCK_SHARED_SECRET)


def proxy_allow_cidrs() -> tuple[str, ...]:
    """Return the private networks that proxy fallbacks may reach."""
    return tuple(settings.MOCK_PROXY_ALLOW_CIDRS)


def redis_prefix() -> str:
    return str(settings.REDIS_PREFIX)


def site_hosts() -> frozenset[str]:
    """Return the names of the hosts that serve pages."""
    urls = (settings.PUBLIC_API_URL, *settings.FRONTEND_URLS)
    return frozenset(host for url in urls if (host := urlsplit(url).hostname))


def own_cookies() -> frozenset[str]:
    """Return the names of the cookies that no mock sees."""
    return frozenset(
        (
            settings.SESSION_COOKIE_NAME,
            settings.CSRF_COOKIE_NAME,
            settings.OIDC_STATE_COOKIE_NAME,
            "messages",
        )
    )


def strict_transport_security() -> str:
    """Return what browsers are told about https, "" for a site without it."""
    if not settings.SECURE_HSTS_SECONDS:
        return ""
    return f"max-age={settings.SECURE_HSTS_SECONDS}"
