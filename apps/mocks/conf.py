"""The settings of mocks."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Final, cast
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from kernel.addresses import Network
from surfaces.operation_rules import ValidateMode

_MAX_PORT: Final = 65535
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def shared_secret() -> str:
    """Return what the resolver and shared spaces ask for, "" for nothing."""
    return str(settings.MOCK_SHARED_SECRET)


def proxy_networks() -> tuple[Network, ...]:
    """Return the private networks that proxy fallbacks may reach."""
    try:
        return tuple(map(ip_network, settings.MOCK_PROXY_ALLOW_CIDRS))
    except ValueError as error:
        raise ImproperlyConfigured(f"MOCK_PROXY_ALLOW_CIDRS: {error}") from None


def validate_mode() -> ValidateMode:
    """Return how calls are checked against their contract where no file of a suite says so."""
    return cast("ValidateMode", settings.MOCK_VALIDATE)


def own_secrets() -> frozenset[str]:
    """Return the secrets of this installation that no proxy fallback forwards."""
    named = (settings.MOCK_SHARED_SECRET, settings.AGENT_SHARED_SECRET, settings.JWT_SECRET)
    return frozenset(map(str, (*named, *settings.JWT_PREVIOUS_SECRETS))) - {""}


def grpc_address() -> tuple[str, int] | None:
    """Return MOCK_GRPC_ADDR as host and port, None when unset; `:8092` listens everywhere."""
    text = str(settings.MOCK_GRPC_ADDR)
    if not text:
        return None
    host, _colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > _MAX_PORT:
        raise ImproperlyConfigured(f"MOCK_GRPC_ADDR={text!r}: expected host:port")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - a bare port listens everywhere


def redis_prefix() -> str:
    return str(settings.REDIS_PREFIX)


def site_hosts() -> frozenset[str]:
    """Return the names of the hosts that serve pages; one name of this machine stands for all."""
    urls = (settings.PUBLIC_API_URL, *settings.FRONTEND_URLS)
    hosts = frozenset(host for url in urls if (host := urlsplit(url).hostname))
    return hosts | _LOOPBACK if hosts & _LOOPBACK else hosts


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
