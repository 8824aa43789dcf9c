"""Who sent a request, for limits: the TCP peer, or whom a trusted proxy names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from kernel.addresses import Address, Network

UNKNOWN: Final = "unknown"
_MAX_HOPS: Final = 32


def read_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Raises ValueError for what is no CIDR."""
    return tuple(ip_network(text.strip(), strict=False) for text in texts)


class ClientAddresses:
    def __init__(self, trusted: tuple[Network, ...] = ()) -> None:
        self._trusted = trusted

    def key(self, peer: str, forwarded_for: Sequence[str]) -> str:
        """The sender's address; IPv6 by its /64. Only a trusted peer's word is heard."""
        address = _parsed(peer)
        if address is None:
            return UNKNOWN
        if self._trusted and forwarded_for and self._is_trusted(address):
            return _limited_as(self._named(",".join(forwarded_for), address))
        return _key_of_peer(peer)

    def _named(self, forwarded_for: str, peer: Address) -> Address:
        """The right-most address that is no trusted proxy; as far as the list can be read."""
        nearest = peer
        for hop in reversed(forwarded_for.split(",")[-_MAX_HOPS:]):
            address = _parsed(_without_port(hop.strip()))
            if address is None:
                return nearest
            nearest = address
            if not self._is_trusted(address):
                return address
        return nearest

    def _is_trusted(self, address: Address) -> bool:
        return any(address in network for network in self._trusted)


def _without_port(text: str) -> str:
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


@lru_cache(maxsize=4096)
def _key_of_peer(text: str) -> str:
    address = _parsed(text)
    return UNKNOWN if address is None else _limited_as(address)


def _limited_as(address: Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return str(IPv6Network((int(address) >> 64 << 64, 64)))
