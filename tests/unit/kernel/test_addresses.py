"""Where the server may go, in every notation that leads there (invariants 23 and 33)."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.addresses import (
    LOCAL_TOO,
    PUBLIC_ONLY,
    Address,
    AddressError,
    AddressKind,
    AddressPolicy,
    AddressRefused,
    HostInvalid,
    HostUnknown,
    kind_of,
    pin,
    read_base_url,
    read_host,
    resolve,
)

METADATA = "169.254.169.254"
KINDS = {
    AddressKind.PUBLIC: "1.1.1.1 93.184.216.34 100.63.255.255 172.32.0.1 2606:4700::1111 2a00::1",
    AddressKind.PRIVATE: "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 198.19.0.1 "
    "fc00::1 fdff::1 fec0::1",
    AddressKind.LOOPBACK: "127.0.0.1 127.255.255.254 ::1",
    AddressKind.LINK_LOCAL: f"{METADATA} 169.254.0.0 169.254.255.255 fe80::1 febf:ffff::1 "
    "100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254 fd20:ce::254",
    AddressKind.RESERVED: "0.0.0.0 0.1.2.3 192.0.0.1 192.0.2.1 192.88.99.1 198.51.100.1 "
    "203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 :: ::2 100::1 "
    "64:ff9b:1::1 2001::1 "
    "2001:db8::1 3fff::1 5f00::1 ff02::1 4000::1",
}
_V4 = st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address)


def forms(address: ipaddress.IPv4Address) -> Iterator[str]:
    """IPv6 addresses that lead to an IPv4 address."""
    high, low = divmod(int(address), 2**16)
    hexadecimal = f"{high:x}:{low:x}"
    yield f"::ffff:{address}"
    yield f"::FFFF:{hexadecimal}"
    yield f"0:0:0:0:0:ffff:{hexadecimal}"
    yield f"::ffff:0:{address}"
    yield f"64:ff9b::{address}"
    yield f"64:ff9b::{hexadecimal}"
    yield f"2002:{hexadecimal}::"
    yield f"2002:{hexadecimal}:1::abcd"
    yield f"fc00::5efe:{hexadecimal}"
    yield f"2a00::200:5efe:{hexadecimal}"


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in KINDS.items() for text in texts.split()]
)
def test_every_address_has_its_kind(kind: AddressKind, text: str) -> None:
    address = ipaddress.ip_address(text)

    assert kind_of(address) is kind
    assert PUBLIC_ONLY.permits(address) is (kind is AddressKind.PUBLIC)
    assert LOCAL_TOO.permits(address) is (
        kind in (AddressKind.PUBLIC, AddressKind.PRIVATE, AddressKind.LOOPBACK)
    )


@given(_V4)
def test_an_ipv4_address_within_an_ipv6_address_is_judged_as_itself(
    address: ipaddress.IPv4Address,
) -> None:
    """Invariant 23."""
    for form in forms(address):
        embedded = ipaddress.ip_address(form)
        if PUBLIC_ONLY.permits(embedded):
            assert PUBLIC_ONLY.permits(address), form
        if LOCAL_TOO.permits(embedded):
            assert LOCAL_TOO.permits(address), form


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_no_policy_permits_link_local(bits: int, six: bool) -> None:
    """Invariant 23."""
    anything = AddressPolicy(
        frozenset(AddressKind), (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))
    )
    base = ipaddress.ip_address("fe80::" if six else "169.254.0.0")
    address = base + (bits if six else bits % 2**16)

    assert not anything.permits(address)
    if isinstance(address, ipaddress.IPv4Address):
        assert not any(anything.permits(ipaddress.ip_address(form)) for form in forms(address))


def test_an_exception_permits_its_network_in_every_form_and_nothing_else() -> None:
    policy = AddressPolicy(frozenset({AddressKind.PUBLIC}), (ipaddress.ip_network("10.1.0.0/16"),))

    for text in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203"):
        assert policy.permits(ipaddress.ip_address(text)), text
    for text in ("10.2.0.1", "::ffff:10.2.0.1", "127.0.0.1", METADATA):
        assert not policy.permits(ipaddress.ip_address(text)), text


@pytest.mark.parametrize(
    "text",
    [
        "2852039166",  # 169.254.169.254 as one number
        "0xa9fea9fe",
        "0xA9.0xFE.0xA9.0xFE",
        "0251.0376.0251.0376",
        "025177524776",
        "169.254.43518",
        "169.16689662",
        "127.1",
        "127.0.1",
        "0",
        "0x7f.1",
        "017700000001",
        "127.0.0.1.",
        "127.0.0.01",
        "127.0.0.0x1",
        "1.2.3.4.5",
        "256.1.1.1",
        "example.0x",
        "example.1",
        "\uff11\uff12\uff17.\uff10.\uff10.\uff11",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "fe80::1%eth0",
        "[fe80::1%25eth0]",
        "::1%lo",
        "::ffff:127.0.0.1%1",
        "[::1",
        "::1]",
        "[[::1]]",
        "::g",
        "1::2::3",
        "[127.0.0.1]",
        "127.0.0.1:80",
        "user@127.0.0.1",
        "example.com@127.0.0.1",
        "exa mple",
        "example\t.com",
        "example.com\n",
        "127.0.0.1\n",
        "example.com\0.evil",
        "example..com",
        ".example",
        "..",
        ".",
        "",
        "-example",
        "example-.com",
        "a" * 64,
        ".".join(["a" * 60] * 5),
        "bücher.example",
        "a/b",
        "a\\b",
        "a?b",
        "a#b",
        "%31%32%37.0.0.1",
    ],
)
def test_what_programs_read_differently_is_no_host(text: str) -> None:
    """Invariants 23 and 33: it is not even asked of a resolver."""
    with pytest.raises(HostInvalid):
        pin(text, 80, LOCAL_TOO, resolver=_never)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("127.0.0.1", ipaddress.ip_address("127.0.0.1")),
        ("[::1]", ipaddress.ip_address("::1")),
        ("::FFFF:1.2.3.4", ipaddress.ip_address("::ffff:1.2.3.4")),
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("localhost.", "localhost"),
        ("worker_1", "worker_1"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("0x.example", "0x.example"),
        ("1.example", "1.example"),
    ],
)
def test_addresses_and_names_are_hosts(text: str, host: Address | str) -> None:
    assert read_host(text) == host


@given(st.text(max_size=40))
def test_whatever_comes_as_a_host_or_url_is_taken_or_refused(text: str) -> None:
    """Invariant 33: nothing else happens."""
    for read in (read_host, lambda given: read_base_url(given, LOCAL_TOO)):
        try:
            read(text)
        except AddressError as refusal:
            assert str(refusal)  # noqa: PT017 - that it was raised is not the point


@pytest.mark.parametrize("text", [METADATA, "fe80::1", f"[::ffff:{METADATA}]", "0.0.0.0", "::"])
def test_an_address_is_checked_without_a_resolver(text: str) -> None:
    """Invariant 23."""
    with pytest.raises(AddressRefused):
        pin(text, 80, LOCAL_TOO, resolver=_never)


def test_a_name_with_one_address_that_is_refused_is_refused() -> None:
    """Invariant 23."""
    mixed = _says("93.184.216.34", f"::ffff:{METADATA}")

    with pytest.raises(AddressRefused, match=r"mixed\.test"):
        pin("mixed.test", 80, LOCAL_TOO, resolver=mixed)


def test_a_name_is_asked_for_once_and_the_answer_stays() -> None:
    """Invariant 23: a resolver that answers differently the second time is not asked again."""
    answers = iter([_says("93.184.216.34"), _says("127.0.0.1")])
    asked: list[str] = []

    def rebinding(name: str, port: int) -> tuple[Address, ...]:
        asked.append(name)
        found: tuple[Address, ...] = next(answers)(name, port)
        return found

    pinned = pin("Rebind.Test.", 80, PUBLIC_ONLY, resolver=rebinding)

    assert pinned == (ipaddress.ip_address("93.184.216.34"),)
    assert asked == ["rebind.test"]
    with pytest.raises(AddressRefused):
        pin("rebind.test", 80, PUBLIC_ONLY, resolver=rebinding)


def test_a_name_without_an_address_is_unknown() -> None:
    with pytest.raises(HostUnknown):
        pin("empty.test", 80, LOCAL_TOO, resolver=_says())


def test_the_resolver_of_this_host_knows_localhost() -> None:
    assert {kind_of(address) for address in resolve("localhost", 80)} == {AddressKind.LOOPBACK}


def test_a_resolver_that_fails_is_an_unknown_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_arguments: object, **_options: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    monkeypatch.setattr(socket, "getaddrinfo", fails)

    with pytest.raises(HostUnknown, match=r"name\.test"):
        resolve("name.test", 80)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://edge-1:8091", "http://edge-1:8091"),
        ("https://edge.example/", "https://edge.example"),
        ("https://edge.example/workers/one/", "https://edge.example/workers/one"),
        ("HTTP://127.0.0.1:8091", "HTTP://127.0.0.1:8091"),
        ("http://[fd00::1]:65535", "http://[fd00::1]:65535"),
    ],
)
def test_a_base_url_has_scheme_host_port_and_path(text: str, url: str) -> None:
    assert read_base_url(text, LOCAL_TOO) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ftp://edge",
        "//edge",
        "edge:8091",
        "http:edge",
        "http:///path",
        "http://",
        "http://user@edge",
        "http://user:password@edge",
        "http://@edge",
        "http://edge@169.254.169.254",
        "http://edge?x=1",
        "http://edge/?",
        "http://edge#f",
        "http://edge/#",
        "http://edge:",
        "http://edge:0",
        "http://edge:65536",
        "http://edge:-1",
        "http://edge:\uff18\uff10",
        "http://edge\\@other",
        "http://edge /",
        " http://edge",
        "http://edge\n",
        "http://edge/\r\nHost: x",
        "http://edge/é",
        "http://2130706433",
        "http://0x7f.1",
        "http://127.0.0.1.",
        "http://[::1%25lo]",
        "http://[::1",
        "http://::1",
        "http://[edge]",
        "http://%65dge",
        f"http://{METADATA}",
        f"http://[::ffff:{METADATA}]:80/x",
        "http://[fe80::1]",
        "http://[2002:a9fe:a9fe::1]",
        "http://0.0.0.0:8091",
    ],
)
def test_anything_else_is_no_base_url(text: str) -> None:
    with pytest.raises(AddressError):
        read_base_url(text, LOCAL_TOO)


def _never(name: str, port: int) -> tuple[Address, ...]:
    raise AssertionError(f"{name}:{port} was resolved")


def _says(*texts: str):
    return lambda _name, _port: tuple(ipaddress.ip_address(text) for text in texts)
