"""The settings that this app reads."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def public_url() -> str:
    return str(settings.PUBLIC_API_URL)


def documentation_folder() -> Path:
    """Return the folder in which the documentation site is, if it was built."""
    built = Path(settings.BASE_DIR) / "documentation" / "html"  # by `make docs`
    return Path(getattr(settings, "DOCUMENTATION_DIR", built))


def has_documentation() -> bool:
    """Whether the documentation site was built: a checkout has none before `make docs`."""
    return (documentation_folder() / "index.html").is_file()


def served_hosts() -> tuple[str, ...]:
    """Return the names that a Host header may have, as Django's ALLOWED_HOSTS writes them."""
    return tuple(settings.SERVED_HOSTS)


def serves_any_address() -> bool:
    """Return whether a Host header may also be any IP address."""
    return bool(settings.SERVE_ANY_ADDRESS)


def frontend_origins() -> tuple[str, ...]:
    return tuple(url.rstrip("/") for url in settings.FRONTEND_URLS)


def strict_transport_security() -> str:
    """Return what browsers are told about https, "" for a site without it."""
    if not settings.SECURE_HSTS_SECONDS:
        return ""
    subdomains = "; includeSubDomains" if settings.SECURE_HSTS_INCLUDE_SUBDOMAINS else ""
    preload = "; preload" if settings.SECURE_HSTS_PRELOAD else ""
    return f"max-age={settings.SECURE_HSTS_SECONDS}{subdomains}{preload}"


def keeps_audit_rows() -> bool:
    return bool(settings.AUDIT_ROWS)


def trusted_proxies() -> tuple[Network, ...]:
    """Return the addresses and CIDR networks of TRUSTED_PROXIES."""
    return _networks(tuple(settings.TRUSTED_PROXIES))


@lru_cache(maxsize=8)
def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(text, strict=False) for text in texts)
    except ValueError as error:
        raise ImproperlyConfigured(f"TRUSTED_PROXIES: {error}") from None


def middleware() -> list[str]:
    """Return the stages of a request, the outermost first."""
    return list(settings.MIDDLEWARE)


@contextmanager
def replace_middleware(paths: list[str]) -> Iterator[None]:
    """Have Django build a chain of other stages."""
    listed = settings.MIDDLEWARE
    settings.MIDDLEWARE = paths
    try:
        yield
    finally:
        settings.MIDDLEWARE = listed
