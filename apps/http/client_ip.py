"""Who is at the other end of the connection (reference: control-plane 1.2, rate limits)."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from django.http import HttpRequest

from apps.http import conf

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def client_ip(request: HttpRequest) -> str:
    """The peer, or behind trusted proxies the right-most forwarded address that is none of them."""
    peer = str(request.META.get("REMOTE_ADDR") or "")
    trusted = conf.trusted_proxies()
    if not _is_trusted(peer, trusted):
        return peer
    forwarded = str(request.META.get("HTTP_X_FORWARDED_FOR", "")).split(",")
    for address in (part.strip() for part in reversed(forwarded)):
        if not _is_address(address):
            return peer
        if not _is_trusted(address, trusted):
            return address
    return peer


def _is_trusted(address: str, networks: Sequence[Network]) -> bool:
    return _is_address(address) and any(ipaddress.ip_address(address) in net for net in networks)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
