"""What proxy fallbacks send and return: headers, credentials, redirects, limits."""

from __future__ import annotations

import asyncio
import base64
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from mocks.model.ports import ProxyAnswer, ProxyFailed, ProxyRefused
from mocks.proxies.guarded import AT_ONCE, MAX_BODY, GuardedProxy
from tests.support.http_site import http_site, raw_site, reply

OWN = "pat_own"


def guarded(**options: Any) -> GuardedProxy:
    given = {
        "allowed": [ip_network("127.0.0.0/8")],
        "resolver": lambda _name, _port: (ip_address("127.0.0.1"),),
        "is_own_secret": lambda text: text == OWN,
        **options,
    }
    return GuardedProxy(**given)


async def forwarded(url: str, **options: Any) -> ProxyAnswer:
    proxy = options.pop("proxy", None) or guarded()
    given: dict[str, Any] = {
        "method": "GET", "headers": {}, "body": b"", "let_through": frozenset(), **options,
    }  # fmt: skip
    return await proxy.forward(url, **given)


async def test_method_body_and_end_to_end_headers_are_forwarded():
    headers = {
        "host": "mocks.example", "accept": "application/json", "content-type": "text/csv",
        "content-length": "999", "x-tenant": "acme", "accept-encoding": "br",
        "connection": "keep-alive, x-hop", "x-hop": "1", "keep-alive": "timeout=5", "te": "x",
        "transfer-encoding": "chunked", "upgrade": "h2c", "expect": "100-continue",
        "authorization": "Bearer x", "cookie": "a=b", "proxy-authorization": "Basic x",
        "forwarded": "for=1.2.3.4", "x-forwarded-for": "1.2.3.4", "x-forwarded-host": "h",
        "x-partita-mock-secret": "s", "x-partita-anything": "x",
    }  # fmt: skip
    async with http_site({"*": reply(b"made", status=201)}) as site:
        answer = await forwarded(
            f"{site.url}/a%2Fb?x=1&x=2#part", method="PUT", headers=headers, body=b"a,b"
        )
    assert (answer.status, answer.body) == (201, b"made")
    asked = site.asked[0]
    assert (asked.method, asked.target, asked.body) == ("PUT", "/a%2Fb?x=1&x=2", b"a,b")
    assert asked.headers == {
        "host": f"127.0.0.1:{site.port}", "accept": "application/json", "content-type": "text/csv",
        "content-length": "3", "x-tenant": "acme", "accept-encoding": "br",
        "via": "1.1 partita-mock", "connection": "close",
    }  # fmt: skip


BASIC = base64.b64encode(f"user:{OWN}".encode()).decode()
CREDENTIALS: list[tuple[str, str, bool]] = [
    ("authorization", "Bearer theirs", True),
    ("authorization", f"Bearer {OWN}", False),
    ("authorization", OWN, False),
    ("authorization", f"Basic {BASIC}", False),
    ("authorization", "Basic not-base64", True),
    ("cookie", "session=theirs", True),
    ("cookie", f"a=b; session={OWN}", False),
    ("cookie", f'a=b; session="{OWN}"', False),
    ("proxy-authorization", "Basic x", False),
    ("x-api-key", OWN, False),
    ("x-api-key", "theirs", True),
]


@pytest.mark.parametrize(("name", "value", "passes"), CREDENTIALS)
async def test_credentials_pass_when_a_constraint_names_them_and_never_our_own(
    name: str, value: str, passes: bool
):
    """Invariant 22."""
    async with http_site({"*": reply()}) as site:
        await forwarded(site.url, headers={name: value}, let_through=frozenset({name}))
    assert (site.asked[0].headers.get(name) == value) is passes


async def test_hop_by_hop_headers_and_cookies_are_dropped_from_the_answer():
    raw = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nSet-Cookie: a=b\r\nSet-Cookie2: c\r\n"
        b"Connection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: x\r\nProxy-Authenticate: Basic\r\n"
        b"Transfer-Encoding: chunked\r\nX-Kept: yes\r\nETag: W/\"1\"\r\n\r\n"
        b"2\r\nhi\r\n0\r\n\r\n"
    )  # fmt: skip
    async with http_site({"*": raw}) as site:
        answer = await forwarded(site.url)
    assert answer.body == b"hi"
    assert answer.media_type == "text/plain"
    assert answer.headers == (("x-kept", "yes"), ("etag", 'W/"1"'))


REDIRECTS: list[tuple[int, str, str, bytes]] = [
    (301, "POST", "GET", b""),
    (302, "POST", "GET", b""),
    (303, "POST", "GET", b""),
    (303, "PUT", "GET", b""),
    (303, "HEAD", "HEAD", b""),
    (301, "PUT", "PUT", b"data"),
    (302, "DELETE", "DELETE", b"data"),
    (307, "POST", "POST", b"data"),
    (308, "PATCH", "PATCH", b"data"),
]


@pytest.mark.parametrize(("status", "method", "then", "body"), REDIRECTS)
async def test_a_redirect_changes_method_and_body_as_http_says(
    status: int, method: str, then: str, body: bytes
):
    sent = b"" if method == "HEAD" else b"data"
    answers = {"/": reply(status=status, Location="/then"), "/then": reply()}
    async with http_site(answers) as site:
        await forwarded(
            f"{site.url}/", method=method, body=sent, headers={"content-type": "text/plain"}
        )
    second = site.asked[1]
    assert (second.method, second.body) == (then, body)
    keeps_type = method == then
    assert ("content-type" in second.headers) is keeps_type


async def test_credentials_stay_at_their_origin():
    """Invariant 22."""
    headers = {"authorization": "Bearer x", "cookie": "a=b", "x-key": "k", "x-api-key": "k",
               "x-tenant": "acme"}  # fmt: skip
    let_through = frozenset({"authorization", "cookie", "x-key"})
    async with http_site({"*": reply(b"other")}) as other:
        answers = {
            "/": reply(status=302, Location="/same"),
            "/same": reply(status=302, Location=f"{other.url}/"),
        }
        async with http_site(answers) as site:
            await forwarded(f"{site.url}/", headers=headers, let_through=let_through)
    assert all(asked.headers.items() >= headers.items() for asked in site.asked)
    assert other.asked[0].headers.keys() & headers.keys() == {"x-tenant"}


async def test_a_redirect_without_a_location_is_an_answer():
    async with http_site({"*": reply(b"choose", status=302)}) as site:
        answer = await forwarded(site.url)
    assert (answer.status, answer.body) == (302, b"choose")


def chunks(count: int) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + (b"100000\r\n" + bytes(2**20) + b"\r\n") * count + b"0\r\n\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10485761\r\n\r\n",
        chunks(11),
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"",
    ],
    ids=[
        "length",
        "chunks",
        "long header",
        "many headers",
        "cut",
        "no HTTP",
        "only 100",
        "nothing",
    ],
)
async def test_an_answer_beyond_its_limits_or_without_form_fails(raw: bytes):
    async with http_site({"*": raw}) as site:
        with pytest.raises(ProxyFailed):
            await forwarded(site.url)


async def test_a_body_of_the_limit_passes():
    body = bytes(MAX_BODY)
    async with http_site({"*": reply(body)}) as site:
        assert len((await forwarded(site.url)).body) == MAX_BODY


async def test_who_does_not_answer_fails_in_time():
    async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw_site(silent) as url:
        with pytest.raises(ProxyFailed):
            await forwarded(url, proxy=guarded(total_s=0.1))


async def test_who_drips_fails_in_time():
    async def dripping(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            writer.write(b"x")
            await asyncio.sleep(0.01)

    async with raw_site(dripping) as url:
        with pytest.raises(ProxyFailed):
            await forwarded(url, proxy=guarded(total_s=0.2))


async def test_a_closed_port_fails():
    async with http_site({"*": reply()}) as site:
        url = site.url
    with pytest.raises(ProxyFailed):
        await forwarded(url)


HEADERS = [
    {"x-evil": "a\r\nX-Partita-Admin: 1"},
    {"x-evil": "a\nb"},
    {"x-evil": "a\x00b"},
    {"x-evil\r\nx-more": "a"},
    {"x evil": "a"},
    {"x:evil": "a"},
    {"via": "1.1 a\r\nX: y"},
    {f"x-{number}": "x" * 1000 for number in range(80)},
]


@pytest.mark.parametrize("headers", HEADERS, ids=range(len(HEADERS)))
async def test_headers_that_would_break_a_request_are_refused(headers: dict[str, str]):
    with pytest.raises(ProxyRefused):
        await forwarded("http://127.0.0.1:1/", headers=headers)


async def test_mocks_that_forward_in_a_circle_stop():
    with pytest.raises(ProxyRefused):
        await forwarded("http://127.0.0.1:1/", headers={"via": ", ".join(["1.1 partita-mock"] * 3)})


async def test_many_calls_at_once_are_bounded():
    gate = asyncio.Event()

    async def waiting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await gate.wait()
        writer.write(reply(b"late"))
        await writer.drain()

    proxy = guarded()
    async with raw_site(waiting) as url:
        calls = [asyncio.create_task(forwarded(url, proxy=proxy)) for _ in range(AT_ONCE)]
        await asyncio.sleep(0)
        with pytest.raises(ProxyFailed):
            await forwarded(url, proxy=proxy)
        gate.set()
        assert {answer.body for answer in await asyncio.gather(*calls)} == {b"late"}
