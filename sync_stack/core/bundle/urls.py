"""Addresses in the bundle: bases of platforms, clone URLs."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from kernel.addresses import AddressKind, destinations, kind_of

_API_SUFFIX: Final = re.compile(r"/api/v[134]$")
_INNER_NAMES: Final = (".internal", ".local", ".localhost", ".home.arpa", ".svc", ".test")
_INNER_KINDS: Final = (AddressKind.PRIVATE, AddressKind.LOOPBACK)
_SCP: Final = re.compile(r"(?:[A-Za-z0-9._-]+@)?([A-Za-z0-9.-]+):(?!//)([^:]+)")


class BadUrl(ValueError):
    """No address of the expected form; the message never repeats credentials."""


def web_base(text: str) -> str:
    """Return the web base of a platform, without `api.` and `/api/v3`; raise BadUrl."""
    parts = parse_url(text, ("https", "http", "file"))
    if parts.scheme == "file":
        return text.rstrip("/")
    host = (parts.hostname or "").removeprefix("api.")
    host = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port else ""
    path = _API_SUFFIX.sub("", parts.path.rstrip("/")).rstrip("/")
    return f"{parts.scheme}://{host}{port}{path}"


def parse_url(text: str, schemes: tuple[str, ...]) -> SplitResult:
    """Split an address; raise BadUrl: another scheme, no host, credentials, a query, a space."""
    known = " or ".join(f"{scheme}://" for scheme in schemes if scheme != "file")
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise BadUrl(f"expected an address such as {known}host") from None
    if parts.scheme not in schemes or not (parts.hostname or parts.scheme == "file"):
        raise BadUrl(f"expected an address that begins with {known}")
    if parts.username is not None or parts.password is not None:
        raise BadUrl("an address holds no credentials: they have fields of their own")
    if parts.query or parts.fragment or any(char.isspace() for char in text):
        raise BadUrl("an address here has no query, no fragment and no white space")
    return parts


def http_url(text: str) -> str:
    """Return an address without `/` at its end; raise BadUrl."""
    return parse_url(text, ("https", "http")).geturl().rstrip("/")


def is_inner(host: str) -> bool:
    """Check for a private or loopback address, or a name that only inner networks resolve."""
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        name = host.lower().rstrip(".")
        return "." not in name or name.endswith(_INNER_NAMES)
    return all(kind_of(end) in _INNER_KINDS for end in destinations(address))


def clone_host(url: str) -> str:
    """Return the host of a clone URL (https, http, ssh, file, `git@host:path`); raise BadUrl."""
    if match := _SCP.fullmatch(url):
        return match[1].lower()
    parts = urlsplit(url)
    if parts.scheme == "ssh" and parts.hostname and not parts.password:
        return parts.hostname
    return parse_url(url, ("https", "http", "file")).hostname or ""
