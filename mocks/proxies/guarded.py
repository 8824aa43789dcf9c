"""Proxy fallbacks: requests to another server, within limits and to checked addresses alone.

    proxy = GuardedProxy(allowed=networks, is_own_secret=tokens.knows)
    answer = await proxy.forward(url, method="GET", headers={}, body=b"", let_through=frozenset())

Each call resolves a host once and connects to what was checked; each redirect is checked as well.
What the guard refuses raises ProxyRefused, what the other server fails at ProxyFailed; neither text
holds an address that a name leads to. (reference: control-plane 18.4)
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

import httpx

from kernel.addresses import (
    AddressKind,
    AddressPolicy,
    AddressRefused,
    HostInvalid,
    Network,
    Resolver,
    resolve,
)
from kernel.kept_connections import KeptConnections, Reply
from mocks.model.ports import ProxyAnswer, ProxyFailed, ProxyRefused

MAX_REDIRECTS: Final = 5
TOTAL_S: Final = 30.0
MAX_BODY: Final = 10 * 2**20
AT_ONCE: Final = 64
MAX_URL: Final = 8192
MAX_REQUEST_HEADERS: Final = 64 * 1024
_MAX_PASSES: Final = 3  # of one request through proxies of mocks
_PSEUDONYM: Final = "partita-mock"
_PORTS: Final = range(1, 2**16)
_REDIRECTS: Final = frozenset([301, 302, 303, 307, 308])
_METHOD: Final = re.compile(r"[A-Z][A-Z-]{0,31}")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_HOP_BY_HOP: Final = frozenset(
    {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_OWN: Final = _HOP_BY_HOP | {"host", "content-length", "expect", "via"}  # set anew or dropped
_LET_THROUGH_ONLY: Final = frozenset({"authorization", "cookie"})
_NEVER: Final = ("proxy-", "x-forwarded-", "x-partita-")
_CREDENTIALS: Final = _LET_THROUGH_ONLY | {
    "api-key", "x-access-token", "x-amz-security-token", "x-api-key", "x-auth-token",
    "x-csrf-token", "x-goog-api-key", "x-vault-token",
}  # fmt: skip
_OF_A_BODY: Final = ("content-", "digest", "repr-digest")
_SET_ANEW: Final = {"content-length", "content-type", "date"}
_DROPPED: Final = _HOP_BY_HOP | _SET_ANEW | {"set-cookie", "set-cookie2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _SentRequest:
    method: str
    url: httpx.URL
    headers: Mapping[str, str]
    body: bytes


class GuardedProxy:
    """Sends requests to public addresses, and to others only in the `allowed` networks.

    `is_own_secret` says of a text whether it is a secret or token of this deployment.
    """

    def __init__(
        self,
        *,
        allowed: Sequence[Network] = (),
        is_own_secret: Callable[[str], bool] = lambda _text: False,
        resolver: Resolver = resolve,
        trust: ssl.SSLContext | None = None,
        total_s: float = TOTAL_S,
    ) -> None:
        self._policy = AddressPolicy(frozenset({AddressKind.PUBLIC}), tuple(allowed))
        self._is_own_secret = is_own_secret
        self._resolver = resolver
        self._trust = trust
        self._total_s = total_s
        self._in_flight = 0

    async def forward(
        self, url: str, *, method: str, headers: Mapping[str, str], body: bytes,
        let_through: frozenset[str],
    ) -> ProxyAnswer:  # fmt: skip
        sent = _SentRequest(
            method=_check_method(method),
            url=_check_url(url),
            headers=self._forward_headers(headers, let_through),
            body=body,
        )
        if self._in_flight >= AT_ONCE:
            raise ProxyFailed(f"more than {AT_ONCE} requests wait for other servers")
        self._in_flight += 1
        connections = KeptConnections(
            self._policy, resolver=self._resolver, trust=self._trust, read_s=self._total_s
        )
        try:
            async with asyncio.timeout(self._total_s):
                return _answer(
                    await _follow_redirects(connections, sent, _CREDENTIALS | let_through)
                )
        except TimeoutError:
            raise ProxyFailed(
                f"{sent.url.host} did not answer within {self._total_s:g} s"
            ) from None
        finally:
            self._in_flight -= 1
            await connections.aclose()

    def _forward_headers(
        self, headers: Mapping[str, str], let_through: frozenset[str]
    ) -> dict[str, str]:
        """Return the headers that go to the other server; raise ProxyRefused."""
        named = headers.get("connection", "").lower().split(",")
        dropped = {*_OWN, *(name.strip() for name in named), "forwarded"}
        forwarded, size = {}, 0
        for given, value in headers.items():
            name = given.lower()
            if name in dropped or name.startswith(_NEVER):
                continue
            if name in _LET_THROUGH_ONLY and name not in let_through:
                continue
            if not _NAME.fullmatch(name) or _CONTROL.search(value):
                raise ProxyRefused("a header of the request holds a control character")
            if any(map(self._is_own_secret, _secrets_in(value))):
                continue
            forwarded[name] = value
            size += len(name) + len(value)
        if size > MAX_REQUEST_HEADERS:
            raise ProxyRefused(
                f"the headers of the request are larger than {MAX_REQUEST_HEADERS} bytes"
            )
        forwarded["via"] = _extend_via(headers.get("via", ""))
        return forwarded


def _extend_via(via: str) -> str:
    """Return `Via` with this proxy; raise ProxyRefused where a request goes round in circles."""
    if _CONTROL.search(via):
        raise ProxyRefused("a header of the request holds a control character")
    if via.count(_PSEUDONYM) >= _MAX_PASSES:
        raise ProxyRefused("the request has passed through several mocks: they lead in a circle")
    return f"{via}, 1.1 {_PSEUDONYM}" if via else f"1.1 {_PSEUDONYM}"


def _secrets_in(value: str) -> Iterator[str]:
    """Yield what may be a secret: the value, what a scheme introduces, parts of Basic, cookies."""
    yield value.strip()
    scheme, _, rest = value.strip().partition(" ")
    if rest:
        yield rest.strip()
    if scheme.lower() == "basic":
        yield from _basic(rest.strip())
    if "=" in value:
        for pair in re.split("[;,]", value):
            yield pair.partition("=")[2].strip().strip('"')


def _basic(text: str) -> tuple[str, ...]:
    try:
        pair = base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return ()
    name, _, password = pair.partition(":")
    return name, password


async def _follow_redirects(
    connections: KeptConnections, sent: _SentRequest, credentials: frozenset[str]
) -> Reply:
    """Send, and follow redirects; raise ProxyRefused or ProxyFailed."""
    for _ in range(MAX_REDIRECTS + 1):
        reply = await _once(connections, sent)
        location = reply.headers.get("location", "")
        if reply.status not in _REDIRECTS or not location:
            return reply
        sent = _redirect(sent, reply.status, _join_url(sent.url, location), credentials)
    raise ProxyRefused(f"{sent.url.host} redirects more than {MAX_REDIRECTS} times")


def _redirect(
    sent: _SentRequest, status: int, target: httpx.URL, credentials: frozenset[str]
) -> _SentRequest:
    """Return the request to the target of a redirect (RFC 9110, 15.4)."""
    headers, method, body = dict(sent.headers), sent.method, sent.body
    turns_post = status in (HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.FOUND) and method == "POST"
    if turns_post or (status == HTTPStatus.SEE_OTHER and method != "HEAD"):
        method, body = "GET", b""
        headers = {name: each for name, each in headers.items() if not name.startswith(_OF_A_BODY)}
    if _origin(target) != _origin(sent.url):
        headers = {name: each for name, each in headers.items() if name not in credentials}
    return replace(sent, method=method, url=target, headers=headers, body=body)


async def _once(connections: KeptConnections, sent: _SentRequest) -> Reply:
    headers = {**sent.headers, "connection": "close"}
    if sent.body or sent.method in ("POST", "PUT", "PATCH"):
        headers["content-length"] = str(len(sent.body))
    try:
        reply = await connections.request(
            sent.method, sent.url, headers=headers, body=sent.body, limit=MAX_BODY
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _failure(error, sent.url) from None
    if reply.is_cut:
        raise ProxyFailed(f"{sent.url.host} answers with more than {MAX_BODY // 2**20} MiB")
    return reply


def _failure(error: Exception, url: httpx.URL) -> ProxyRefused | ProxyFailed:
    """Return what a client's error means, without the address that a name leads to."""
    for kind, made, text in _MEANINGS:
        if isinstance(error, kind) or isinstance(error.__cause__, kind):
            return made(f"{url.host} {text}")
    return ProxyFailed(f"{url.host} does not answer with HTTP/1.1 as it should")


_MEANINGS: Final[tuple[tuple[type[Exception], type[ProxyRefused | ProxyFailed], str], ...]] = (
    (
        AddressRefused,
        ProxyRefused,
        "leads to an address that MOCK_PROXY_ALLOW_CIDRS does not allow",
    ),
    (HostInvalid, ProxyRefused, "is neither a name nor a plain address"),
    (httpx.LocalProtocolError, ProxyRefused, "would get a line break where none may be"),
    (ssl.SSLError, ProxyFailed, "has a certificate that is not accepted"),
    (httpx.TimeoutException, ProxyFailed, "did not answer in time"),
    (httpx.ConnectError, ProxyFailed, "cannot be reached"),
)


def _answer(reply: Reply) -> ProxyAnswer:
    named = reply.headers.get("connection", "").lower().split(",")
    dropped = {*_DROPPED, *(name.strip() for name in named)}
    return ProxyAnswer(
        status=reply.status,
        media_type=reply.headers.get("content-type", ""),
        headers=tuple(
            (name, _CONTROL.sub("", value))
            for name, value in reply.headers.items()
            if name not in dropped and not name.startswith("proxy-")
        ),
        body=reply.body,
    )


def _check_method(method: str) -> str:
    """Return a method that is forwarded; raise ProxyRefused."""
    if not _METHOD.fullmatch(method) or method in ("CONNECT", "TRACE"):
        raise ProxyRefused("the method of the request is not forwarded")
    return method


def _check_url(text: str) -> httpx.URL:
    """Return an http(s) URL of host, port, path and query; raise ProxyRefused."""
    if len(text) > MAX_URL:
        raise ProxyRefused(f"the URL is longer than {MAX_URL} characters")
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError):
        raise ProxyRefused("the URL is invalid") from None
    if url.scheme not in ("http", "https"):
        raise ProxyRefused("the URL is neither http nor https")
    if not url.host or url.userinfo or "\\" in text:
        raise ProxyRefused("the URL must have a host, and no user")
    if url.port is not None and url.port not in _PORTS:
        raise ProxyRefused("the port of the URL must be from 1 to 65535")
    return url.copy_with(fragment=None)


def _join_url(base: httpx.URL, location: str) -> httpx.URL:
    """Return where a redirect leads; raise ProxyRefused."""
    try:
        return _check_url(str(base.join(location)) if "\\" not in location else location)
    except (httpx.InvalidURL, ValueError):
        raise ProxyRefused(f"{base.host} redirects to an invalid URL") from None


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)
