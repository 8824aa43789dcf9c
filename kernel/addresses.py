"""Which addresses the server may be sent to: the guard against requests to its own network.

A name is resolved once, everything it resolves to is checked, and the connection goes to what was
checked, never to the name again: a resolver may answer differently the second time. An address
within an address (IPv4 in IPv6 forms) counts as what it leads to.

    AddressError
    ├── HostInvalid       no plain address and no name
    ├── HostUnknown       the name has no address
    └── AddressRefused    it has one, and the policy does not permit it
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolver = Callable[[str, int], Sequence[Address]]


class AddressError(Exception):
    """There is no connection to make; the message says why and names the host."""


class HostInvalid(AddressError):
    pass


class HostUnknown(AddressError):
    pass


class AddressRefused(AddressError):
    pass


class AddressKind(StrEnum):
    """What an address leads to. `LINK_LOCAL`: also the metadata services of clouds, wherever."""

    PUBLIC = "public"
    PRIVATE = "private"
    LOOPBACK = "loopback"
    LINK_LOCAL = "link-local"
    RESERVED = "reserved"


_NETWORKS: Final[tuple[tuple[AddressKind, Network], ...]] = (
    tuple(  # the first that holds it decides
        (kind, ip_network(network))
        for kind, networks in (
            (
                AddressKind.LINK_LOCAL,
                "169.254.0.0/16 fe80::/10 "
                "100.100.100.200/32 168.63.129.16/32 192.0.0.192/32 "
                "fd00:ec2::254/128 fd20:ce::254/128",
            ),
            (AddressKind.LOOPBACK, "127.0.0.0/8 ::1/128"),
            (
                AddressKind.PRIVATE,
                "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 198.18.0.0/15 "
                "fc00::/7 fec0::/10",
            ),
            (
                AddressKind.RESERVED,
                "0.0.0.0/8 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.51.100.0/24 203.0.113.0/24 "
                "224.0.0.0/4 240.0.0.0/4 2001::/23 2001:db8::/32 3fff::/20",
            ),
            (AddressKind.PUBLIC, "0.0.0.0/0 2000::/3"),
            (AddressKind.RESERVED, "::/0"),
        )
        for network in networks.split()
    )
)
_EMBEDDINGS: Final = (  # network, and how many bits stand to the right of the IPv4 address in it
    (IPv6Network("::ffff:0:0/96"), 0),  # mapped
    (IPv6Network("::ffff:0:0:0/96"), 0),  # translated
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
)
_ISATAP: Final = (0x00005EFE, 0x02005EFE)
_IPV4_BITS: Final = 0xFFFFFFFF


def kind_of(address: Address) -> AddressKind:
    """Return the kind of the address itself, whatever is embedded in it."""
    return next(kind for kind, network in _NETWORKS if address in network)


def destinations(address: Address) -> Iterator[Address]:
    """Yield where packets to it may end: the address itself, or the IPv4 address within it."""
    if isinstance(address, IPv4Address):
        yield address
        return
    bits = int(address)
    for network, right in _EMBEDDINGS:
        if address in network:
            yield IPv4Address(bits >> right & _IPV4_BITS)
            return
    yield address
    if bits >> 32 & _IPV4_BITS in _ISATAP:
        yield IPv4Address(bits & _IPV4_BITS)


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Permits `kinds`, and what `exceptions` hold beside; link-local never."""

    kinds: frozenset[AddressKind]
    exceptions: tuple[Network, ...] = ()

    def permits(self, address: Address) -> bool:
        return all(self._permits(each) for each in destinations(address))

    def _permits(self, address: Address) -> bool:
        kind = kind_of(address)
        if kind is AddressKind.LINK_LOCAL:
            return False
        return kind in self.kinds or any(address in network for network in self.exceptions)


PUBLIC_ONLY: Final = AddressPolicy(frozenset({AddressKind.PUBLIC}))
LOCAL_TOO: Final = AddressPolicy(
    frozenset({AddressKind.PUBLIC, AddressKind.PRIVATE, AddressKind.LOOPBACK})
)

_NUMBER: Final = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NAME_LENGTH: Final = 253


def read_host(text: str) -> Address | str:
    """An address, or a name in lower case without its last dot. Raises HostInvalid.

    IPv4 only as four decimal numbers: what programs read differently (`127.1`, `0x7f.0.0.1`,
    `0177.0.0.1`, `2130706433`) is neither an address nor a name. No zone ids.
    """
    if ":" in text:
        return _read_ipv6(text)
    name = text.lower()
    if _NUMBER.match(name.removesuffix(".").rpartition(".")[2]):
        return _read_ipv4(text)
    name = name.removesuffix(".")
    if len(name) > _NAME_LENGTH or not all(_LABEL.match(label) for label in name.split(".")):
        raise HostInvalid(f"{text[:_NAME_LENGTH]!r} is not a host name")
    return name


def _read_ipv6(text: str) -> IPv6Address:
    bare = text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text
    try:
        address = IPv6Address(bare)
    except AddressValueError:
        raise HostInvalid(f"{text[:_NAME_LENGTH]!r} is not an IPv6 address") from None
    if address.scope_id is not None:
        raise HostInvalid(f"{text[:_NAME_LENGTH]!r} has a zone id")
    return address


def _read_ipv4(text: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except AddressValueError:
        raise HostInvalid(
            f"{text[:_NAME_LENGTH]!r} is not an IPv4 address of four decimal numbers"
        ) from None


def resolve(name: str, port: int) -> tuple[Address, ...]:
    """Ask the resolver of the host, which may take long; best first. Raises HostUnknown."""
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise HostUnknown(f"{name} has no address: {error}") from error
    return tuple(dict.fromkeys(ip_address(sockaddr[0]) for *_, sockaddr in found))


def pin(
    host: str, port: int, policy: AddressPolicy, *, resolver: Resolver = resolve
) -> tuple[Address, ...]:
    """The addresses to connect to for `host`, best first; asks the resolver at most once.

    One address that is refused refuses the host. Raises AddressError.
    """
    known = read_host(host)
    addresses = tuple(resolver(known, port)) if isinstance(known, str) else (known,)
    if not addresses:
        raise HostUnknown(f"{host} has no address")
    for address in addresses:
        if not policy.permits(address):
            raise AddressRefused(f"{host} leads to {address}, where the server may not go")
    return addresses


_BASE_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>(?:/[a-z0-9._~!$&'()*+,;=:%-]*)*)\Z",
    re.IGNORECASE | re.ASCII,
)
_PORTS: Final = range(1, 65536)


def read_base_url(text: str, policy: AddressPolicy) -> str:
    """An http or https URL that paths can be appended to: without a slash at its end.

    Names are not resolved here, addresses are checked. Raises AddressError.
    """
    found = _BASE_URL.match(text)
    if found is None:
        raise HostInvalid(
            "must be an http or https URL of host, port and path, without user, query or fragment"
        )
    if found["port"] and int(found["port"]) not in _PORTS:
        raise HostInvalid("its port must be from 1 to 65535")
    host = read_host(found["host"])
    if not isinstance(host, str) and not policy.permits(host):
        raise AddressRefused(f"{host} is an address where the server may not go")
    return text.rstrip("/")
