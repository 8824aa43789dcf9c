"""Where proxy fallbacks may not go: schemes, hosts, redirects, resolvers that change their mind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from kernel.addresses import Address, HostUnknown
from mocks.model.ports import Proxy, ProxyAnswer, ProxyFailed, ProxyRefused
from mocks.proxies.guarded import GuardedProxy
from mocks.proxies.lazy import LazyProxy
from tests.support.http_site import http_site, reply

NAMES = {
    "public.test": ["93.184.216.34"],
    "inside.test": ["10.1.2.3"],
    "both.test": ["93.184.216.34", "127.0.0.1"],
    "metadata.google.internal": ["169.254.169.254"],
    "localtest.test": ["127.0.0.1"],
    "six.test": ["::1"],
    "mapped.test": ["::ffff:10.0.0.1"],
    "nat64.test": ["64:ff9b::a00:1"],
    "sixtofour.test": ["2002:7f00:1::"],
    "unique.test": ["fd12:3456::1"],
    "empty.test": [],
}


def resolver(name: str, _port: int) -> Sequence[Address]:
    if name not in NAMES:
        raise HostUnknown(f"{name} has no address")
    return tuple(map(ip_address, NAMES[name]))


REFUSED = {
    # schemes
    "file": "file:///etc/passwd",
    "gopher": "gopher://public.test:6379/_INFO",
    "ftp": "ftp://public.test/x",
    "ldap": "ldap://public.test/",
    "dict": "dict://public.test:11211/stat",
    "data": "data:text/plain,hello",
    "javascript": "javascript:alert(1)",
    "jar": "jar:http://public.test!/",
    "unix socket": "http+unix://%2Fvar%2Frun%2Fdocker.sock/info",
    "websocket": "ws://public.test/",
    "no scheme": "public.test/x",
    "scheme-relative": "//public.test/x",
    "empty": "",
    # loopback and its spellings
    "loopback": "http://127.0.0.1/",
    "other loopback": "http://127.8.8.8/",
    "short loopback": "http://127.1/",
    "decimal": "http://2130706433/",
    "hex": "http://0x7f000001/",
    "hex parts": "http://0x7f.0.0.1/",
    "octal": "http://0177.0.0.1/",
    "octal, all parts": "http://0177.0000.0000.0001/",
    "zero": "http://0/",
    "unspecified": "http://0.0.0.0/",
    "dot at the end": "http://127.0.0.1./",
    "name with a dot at the end": "http://localtest.test./",
    "full-width digits": "http://\uff11\uff12\uff17.0.0.1/",
    "ideographic dots": "http://127。0。0。1/",
    "loopback of IPv6": "http://[::1]/",
    "unspecified IPv6": "http://[::]/",
    "all of ::1": "http://[0000:0000:0000:0000:0000:0000:0000:0001]/",
    "zone id": "http://[fe80::1%25eth0]/",
    "mapped": "http://[::ffff:127.0.0.1]/",
    "mapped, hex": "http://[::ffff:7f00:1]/",
    "compatible": "http://[::127.0.0.1]/",
    "translated": "http://[::ffff:0:127.0.0.1]/",
    "NAT64": "http://[64:ff9b::7f00:1]/",
    "6to4": "http://[2002:7f00:1::]/",
    "ISATAP": "http://[2001:4860::5efe:7f00:1]/",
    # private networks
    "10/8": "http://10.0.0.1/",
    "172.16/12": "http://172.31.255.255/",
    "192.168/16": "http://192.168.1.1/",
    "carrier": "http://100.64.0.1/",
    "benchmarks": "http://198.18.0.1/",
    "multicast": "http://224.0.0.1/",
    "broadcast": "http://255.255.255.255/",
    "unique local": "http://[fd00::1]/",
    "site local": "http://[fec0::1]/",
    "IPv6 multicast": "http://[ff02::1]/",
    # metadata services
    "metadata": "http://169.254.169.254/latest/meta-data/",
    "metadata, decimal": "http://2852039166/",
    "metadata, mapped": "http://[::ffff:169.254.169.254]/",
    "metadata of IPv6": "http://[fd00:ec2::254]/",
    "metadata of Alibaba": "http://100.100.100.200/",
    "metadata of Azure": "http://168.63.129.16/",
    "metadata of Oracle": "http://192.0.0.192/",
    "metadata by name": "http://metadata.google.internal/computeMetadata/v1/",
    # names that lead there
    "name of a private address": "http://inside.test/",
    "one of two addresses": "http://both.test/",
    "name of ::1": "http://six.test/",
    "name of a mapped address": "http://mapped.test/",
    "name of NAT64": "http://nat64.test/",
    "name of 6to4": "http://sixtofour.test/",
    "name of a unique local address": "http://unique.test/",
    "upper case": "HTTP://LOCALTEST.TEST/",
    # users, and what parsers disagree about
    "user": "http://public.test@127.0.0.1/",
    "user and password": "http://user:secret@public.test/",
    "host as user": "http://127.0.0.1@public.test/",
    "encoded slash before @": "http://public.test%2f@127.0.0.1/",
    "backslash": "http://public.test\\@127.0.0.1/",
    "backslash path": "http:\\\\127.0.0.1\\",
    "backslash after the host": "http://public.test\\.inside.test/",
    "fragment before @": "http://127.0.0.1#@public.test/",
    "query before @": "http://127.0.0.1?@public.test/",
    "encoded host": "http://%31%32%37.0.0.1/",
    "space in the host": "http://public.test 127.0.0.1/",
    "NUL in the host": "http://public.test\x00.inside.test/",
    "line break in the host": "http://public.test\r\nHost: inside.test/",
    "line break in the path": "http://public.test/x HTTP/1.1\r\nX-Evil: 1\r\n\r\n",
    "tab": "http://pub\tlic.test/",
    "no host": "http:///etc/passwd",
    "one slash": "http:/127.0.0.1/",
    "port 0": "http://public.test:0/",
    "port too large": "http://public.test:65616/",
    "port below zero": "http://public.test:-80/",
    "two ports": "http://public.test:80:22/",
    "port with a sign": "http://public.test:80@127.0.0.1:22/",
    "open bracket": "http://[::1/",
    "too long": "http://public.test/" + "a" * 9000,
    "label too long": "http://" + "a" * 64 + ".test/",
}  # fmt: skip


async def forwarded(proxy: Proxy, url: str, method: str = "GET") -> ProxyAnswer:
    return await proxy.forward(url, method=method, headers={}, body=b"", let_through=frozenset())


@pytest.mark.parametrize("case", REFUSED)
async def test_a_target_is_refused_before_anything_is_sent(
    case: str, monkeypatch: pytest.MonkeyPatch
):
    """Invariant 23."""

    async def no_connection(*_arguments: object, **_options: object) -> None:
        raise AssertionError("a connection was made")

    monkeypatch.setattr("asyncio.open_connection", no_connection)
    with pytest.raises(ProxyRefused) as refused:
        await forwarded(GuardedProxy(resolver=resolver), REFUSED[case])
    resolved = {address for addresses in NAMES.values() for address in addresses}
    resolved.discard("127.0.0.1")  # which the ideographic dots spell
    told = {each for each in resolved if each in refused.value.detail and each not in REFUSED[case]}
    assert not told


def test_the_table_has_fifty_cases_and_more():
    assert len(REFUSED) >= 50


@pytest.mark.parametrize("host", ["unknown.test", "empty.test"])
async def test_a_host_without_an_address_fails(host: str):
    with pytest.raises(ProxyFailed):
        await forwarded(GuardedProxy(resolver=resolver), f"http://{host}/")


async def test_allowed_networks_hold_for_their_addresses_alone():
    proxy = GuardedProxy(allowed=[ip_network("127.0.0.1/32")], resolver=resolver)
    async with http_site({"*": reply(b"here")}) as site:
        assert (await forwarded(proxy, f"{site.url}/")).body == b"here"
        assert (await forwarded(proxy, f"http://localtest.test:{site.port}/")).body == b"here"
        for refused in ("http://127.0.0.2/", "http://inside.test/", "http://[::1]/"):
            with pytest.raises(ProxyRefused):
                await forwarded(proxy, refused)
    assert len(site.asked) == 2


async def test_metadata_services_are_refused_even_where_every_network_is_allowed():
    proxy = GuardedProxy(allowed=[ip_network("0.0.0.0/0"), ip_network("::/0")], resolver=resolver)
    for url in ("http://169.254.169.254/", "http://metadata.google.internal/", "http://[fe80::1]/"):
        with pytest.raises(ProxyRefused):
            await forwarded(proxy, url)


LOCATIONS = [
    "http://127.0.0.2/", "http://10.0.0.1/admin", "http://inside.test/", "http://[::1]/",
    "http://169.254.169.254/latest/meta-data/", "http://2130706434/", "http://0177.0.0.2/",
    "//inside.test/x", "file:///etc/passwd", "gopher://127.0.0.1:6379/_FLUSHALL",
    "http://public.test@127.0.0.2/", "http://mapped.test/", "http://[::ffff:127.0.0.2]/",
    "http://127.0.0.2\\@public.test/", "http://[::1", "http://metadata.google.internal./",
]  # fmt: skip


@pytest.mark.parametrize("location", LOCATIONS)
async def test_a_redirect_is_checked_like_a_target(location: str):
    """Invariant 23."""
    proxy = GuardedProxy(allowed=[ip_network("127.0.0.1/32")], resolver=resolver)
    async with http_site({"/": reply(status=302, Location=location)}) as site:
        with pytest.raises(ProxyRefused):
            await forwarded(proxy, f"{site.url}/")
    assert [asked.target for asked in site.asked] == ["/"]


async def test_a_redirect_to_a_redirect_is_checked_too():
    proxy = GuardedProxy(allowed=[ip_network("127.0.0.1/32")], resolver=resolver)
    answers = {
        "/": reply(status=307, Location="/next"),
        "/next": reply(status=308, Location="http://inside.test/"),
    }
    async with http_site(answers) as site:
        with pytest.raises(ProxyRefused):
            await forwarded(proxy, f"{site.url}/")
    assert [asked.target for asked in site.asked] == ["/", "/next"]


@pytest.mark.parametrize(("hops", "is_answered"), [(5, True), (6, False)])
async def test_five_redirects_are_followed(hops: int, is_answered: bool):
    def answer(target: str) -> bytes:
        left = int(target[1:])
        return reply(status=302, Location=f"/{left - 1}") if left else reply(b"end")

    proxy = GuardedProxy(allowed=[ip_network("127.0.0.1/32")], resolver=resolver)
    async with http_site(answer) as site:
        if is_answered:
            assert (await forwarded(proxy, f"{site.url}/{hops}")).body == b"end"
        else:
            with pytest.raises(ProxyRefused):
                await forwarded(proxy, f"{site.url}/{hops}")
    assert len(site.asked) == 6


class Rebinding:
    """A resolver that answers once with what is allowed, then with what is not."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self, _name: str, _port: int) -> Sequence[Address]:
        self.asked += 1
        return (ip_address(self.answers[min(self.asked, len(self.answers)) - 1]),)


async def test_the_connection_goes_to_the_address_that_was_checked():
    """Invariant 23: asked again, the resolver would name another host; it is asked once."""
    rebinding = Rebinding("127.0.0.1", "127.0.0.2")
    proxy = GuardedProxy(allowed=[ip_network("127.0.0.1/32")], resolver=rebinding)
    async with http_site({"*": reply(b"pinned")}) as site:
        answer = await forwarded(proxy, f"http://rebinding.test:{site.port}/")
    assert answer.body == b"pinned"
    assert rebinding.asked == 1
    assert site.asked[0].headers["host"] == f"rebinding.test:{site.port}"


async def test_the_first_request_does_not_hold_the_event_loop(monkeypatch):
    """The client takes long to import."""

    class Slow(GuardedProxy):
        def __init__(self, **options: Any) -> None:
            time.sleep(0.3)
            super().__init__(**options)

    monkeypatch.setattr("mocks.proxies.guarded.GuardedProxy", Slow)
    proxy = LazyProxy(allowed=[ip_network("127.0.0.1/32")])
    async with http_site({"*": reply(b"here", Date="then", X_A="1")}) as site:
        first = asyncio.create_task(forwarded(proxy, f"http://127.0.0.1:{site.port}/"))
        await asyncio.sleep(0.02)
        assert not first.done(), "the loop goes on"
        answer = await first

    assert answer.body == b"here"
    assert [name for name, _ in answer.headers if name in ("date", "x-a")] == ["x-a"]


async def test_a_name_that_changes_is_refused_at_its_next_call():
    rebinding = Rebinding("127.0.0.1", "127.0.0.2")
    proxy = GuardedProxy(allowed=[ip_network("127.0.0.1/32")], resolver=rebinding)
    async with http_site({"*": reply(b"pinned")}) as site:
        url = f"http://rebinding.test:{site.port}/"
        await forwarded(proxy, url)
        with pytest.raises(ProxyRefused):
            await forwarded(proxy, url)
    assert len(site.asked) == 1


async def test_a_redirect_back_to_the_same_name_stays_at_the_checked_address():
    rebinding = Rebinding("127.0.0.1", "127.0.0.2")
    proxy = GuardedProxy(allowed=[ip_network("127.0.0.1/32")], resolver=rebinding)
    answers = {"/": reply(status=302, Location="/again"), "/again": reply(b"same")}
    async with http_site(answers) as site:
        assert (await forwarded(proxy, f"http://rebinding.test:{site.port}/")).body == b"same"
    assert rebinding.asked == 1
    assert len(site.asked) == 2


async def test_a_name_that_a_redirect_leads_to_is_resolved_and_checked():
    rebinding = Rebinding("127.0.0.1", "127.0.0.2")  # first.test, then second.test
    proxy = GuardedProxy(allowed=[ip_network("127.0.0.1/32")], resolver=rebinding)
    async with http_site({"*": reply(status=302, Location="http://second.test/")}) as site:
        with pytest.raises(ProxyRefused):
            await forwarded(proxy, f"http://first.test:{site.port}/")
    assert rebinding.asked == 2


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "GET / HTTP/1.1\r\nX: y", "", "get"])
async def test_a_method_that_is_no_method_is_refused(method: str):
    with pytest.raises(ProxyRefused):
        await forwarded(GuardedProxy(resolver=resolver), "http://public.test/", method)
