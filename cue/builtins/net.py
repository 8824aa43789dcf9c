"""The package net: addresses, host names and URL escapes."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Final
from urllib.parse import quote, quote_plus

from cue.builtins.function import CallRefused, Failed, Function, Numeric, integer, package
from cue.scalars import Type

_LABEL: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_MAX_NAME: Final = 253


def _address(text: str) -> IPv4Address | None:
    """An IPv4 address; None for what is not an address at all. Raises CallRefused for IPv6."""
    if ":" in text:
        raise CallRefused("an IPv6 address")
    try:
        found = ip_address(text)
    except ValueError:
        return None
    assert isinstance(found, IPv4Address)
    return found


def _test(name: str, holds: Callable[[IPv4Address], bool]) -> Function:
    def apply(text: str) -> bool:
        found = _address(text)
        return found is not None and holds(found)

    return Function(f"net.{name}", "s", apply, Type.STRING)


def _is_network(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if ":" in text:
        raise CallRefused("an IPv6 network")
    if not slash or not bits.isdigit() or (len(bits) > 1 and bits.startswith("0")):
        return False
    try:
        ip_network(f"{address}/{bits}", strict=False)
    except ValueError:
        return False
    return True


def _is_name(text: str) -> bool:
    if not text.isascii() or "_" in text or len(text) > _MAX_NAME or text.endswith("."):
        raise CallRefused("an unusual host name")
    return bool(text) and all(_LABEL.fullmatch(label) for label in text.split("."))


def _split(text: str) -> list[str]:
    host, colon, port = text.rpartition(":")
    if not colon:
        raise Failed("missing port in address")
    if any(sign in host for sign in ":[]") or any(sign in port for sign in "[]"):
        raise CallRefused("an IPv6 address")
    return [host, port]


def _join(host: object, port: object) -> str:
    if not isinstance(host, str) or ":" in host or "%" in host:
        raise CallRefused("a host that is not a name or IPv4 address")
    if isinstance(port, Numeric) and port.is_int and port.value >= 0:
        return f"{host}:{port.text}"
    if not isinstance(port, str):
        raise Failed("the port is not text or integer")
    return f"{host}:{port}"


def _parse(text: str) -> list[Numeric]:
    found = _address(text)
    if found is None:
        raise Failed("invalid IP address")
    return [integer(byte) for byte in found.packed]


NET: Final = package(
    "net",
    _test("IP", lambda _: True),
    _test("IPv4", lambda _: True),
    _test("LoopbackIP", lambda found: found.is_loopback),
    _test("MulticastIP", lambda found: found.is_multicast),
    _test("UnspecifiedIP", lambda found: found.is_unspecified),
    Function("net.FQDN", "s", _is_name, Type.STRING),
    Function("net.IPCIDR", "s", _is_network, Type.STRING),
    Function("net.JoinHostPort", "pp", _join),
    Function("net.ParseIP", "s", _parse),
    Function("net.PathEscape", "s", lambda text: quote(text, safe="$&+=:@-_.~")),
    Function("net.QueryEscape", "s", lambda text: quote_plus(text, safe="-_.~")),
    Function("net.SplitHostPort", "s", _split),
)
