"""Where Redis is: REDIS_ADDR, REDIS_PASSWORD and REDIS_DB as one URL."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from django.core.exceptions import ImproperlyConfigured


def redis_url(address: str, password: str, db: int) -> str:
    """Empty without an address. Raises ImproperlyConfigured for one that is no `host:port`."""
    if not address:
        return ""
    if not _is_host_and_port(address):
        raise ImproperlyConfigured(f"REDIS_ADDR={address!r}: expected host:port")
    login = f":{quote(password, safe='')}@" if password else ""
    return f"redis://{login}{address}/{db}"


def _is_host_and_port(address: str) -> bool:
    try:
        parts = urlsplit(f"//{address}")
        return bool(parts.hostname) and parts.netloc == address and parts.port != 0
    except ValueError:  # a port that is no number, brackets around no IPv6 address
        return False
