"""The address of a client for rate limits: the TCP peer, or the one a trusted proxy names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from kernel.addresses import Address, Network

UNKNOWN: Final = "unknown"
_MAX_HOPS: Final = 32


def read_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Parse CIDRs. Raises ValueError."""
    return tuple(ip_network(text.strip(), strict=False) for text in texts)


class ClientAddresses:
    def __init__(self, trusted: tuple[Network, ...] = ()) -> None:
        self._trusted = trusted

    def key(self, peer: str, forwarded_for: Sequence[str]) -> str:
        """Return the address of the client, of IPv6 its /64; only trusted peers may name it."""
        address = _parse(peer)
        if address is None:
            return UNKNOWN
        if self._trusted and forwarded_for and self._is_trusted(address):
            return _rate_limit_key(self._client_behind_proxies(",".join(forwarded_for), address))
        return _peer_key(peer)

    def _client_behind_proxies(self, forwarded_for: str, peer: Address) -> Address:
        """Return the right-most address that is not a trusted proxy; stop at an invalid one."""
        nearest = peer
        for hop in reversed(forwarded_for.split(",")[-_MAX_HOPS:]):
            text = hop.strip()
            if text.startswith("["):
                text = text[1:].partition("]")[0]
            elif text.count(":") == 1:
                text = text.partition(":")[0]
            address = _parse(text)
            if address is None:
                return nearest
            nearest = address
            if not self._is_trusted(address):
                return address
        return nearest

    def _is_trusted(self, address: Address) -> bool:
        return any(address in network for network in self._trusted)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


@lru_cache(maxsize=4096)
def _peer_key(text: str) -> str:
    address = _parse(text)
    return UNKNOWN if address is None else _rate_limit_key(address)


def _rate_limit_key(address: Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return str(IPv6Network((int(address) >> 64 << 64, 64)))
