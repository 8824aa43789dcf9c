"""HTTP requests that go nowhere but to checked addresses (`kernel.addresses`)."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache, partial
from typing import Any, Final

import httpx

from kernel.addresses import Address, AddressError, AddressPolicy, Resolver, pin, read_host, resolve

_PORTS: Final = {"http": 80, "https": 443}
_MAX_ORIGINS: Final = 16


class PinnedTransport(httpx.AsyncBaseTransport):
    """Each request resolves its host once and connects to what was checked.

    `Host` and, with TLS, the name that the certificate must have stay those of the URL. A client
    that follows redirects has each of them checked as well. What is refused or unknown raises
    httpx.ConnectError. Connections are not kept: one made for a name must not serve another that
    has the same address (`KeptTransport` keeps them by name). `trust`: other authorities than
    those that this host trusts.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        resolver: Resolver = resolve,
        connections: int = 10,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = policy
        self._resolver = resolver
        self._inner = _inner(trust, connections, kept=0)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        addresses = await _checked(request, self._policy, self._resolver)
        for address in addresses[:-1]:
            with contextlib.suppress(httpx.ConnectError):
                return await self._inner.handle_async_request(_sent_to(address, request))
        return await self._inner.handle_async_request(_sent_to(addresses[-1], request))

    async def aclose(self) -> None:
        await self._inner.aclose()


class KeptTransport(httpx.AsyncBaseTransport):
    """Like PinnedTransport for a short conversation: connections are kept, each for one name.

    A name is resolved and checked once in the life of the transport, and its connections are those
    of that name alone. A conversation with more than 16 origins is refused.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        resolver: Resolver = resolve,
        connections: int = 10,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = policy
        self._resolver = resolver
        self._connections = connections
        self._trust = trust
        self._origins: dict[tuple[str, str, int], _Origin] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        origin = self._origin(request)
        if origin.address is None:
            async with origin.lock:
                if origin.address is None:
                    return await self._first(origin, request)
        return await origin.inner.handle_async_request(_sent_to(origin.address, request))

    async def _first(self, origin: _Origin, request: httpx.Request) -> httpx.Response:
        """Pin the first checked address that can be connected to."""
        addresses = await _checked(request, self._policy, self._resolver)
        for address in addresses:
            try:
                response = await origin.inner.handle_async_request(_sent_to(address, request))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if address == addresses[-1]:
                    raise
                continue
            origin.address = address
            return response
        raise AssertionError("a checked name has an address")

    def _origin(self, request: httpx.Request) -> _Origin:
        url = request.url
        key = (url.scheme, _host(request), url.port or _PORTS[url.scheme])
        if key not in self._origins:
            if len(self._origins) == _MAX_ORIGINS:
                raise httpx.ConnectError("too many hosts in one conversation", request=request)
            inner = _inner(self._trust, self._connections, kept=self._connections)
            self._origins[key] = _Origin(inner)
        return self._origins[key]

    async def aclose(self) -> None:
        for origin in self._origins.values():
            await origin.inner.aclose()


class _Origin:
    """A scheme, name and port of a conversation, with its connections and its pinned address."""

    def __init__(self, inner: httpx.AsyncHTTPTransport) -> None:
        self.inner = inner
        self.lock = asyncio.Lock()
        self.address: Address | None = None


def _inner(
    trust: ssl.SSLContext | None, connections: int, *, kept: int
) -> httpx.AsyncHTTPTransport:
    return httpx.AsyncHTTPTransport(
        verify=trust or _trust(),
        trust_env=False,
        limits=httpx.Limits(max_connections=connections, max_keepalive_connections=kept),
    )


def pinned_client(
    policy: AddressPolicy, *, resolver: Resolver = resolve, connections: int = 10, **options: Any
) -> httpx.AsyncClient:
    """Without redirects, proxies or other settings of the environment."""
    transport = PinnedTransport(policy, resolver=resolver, connections=connections)
    return httpx.AsyncClient(
        transport=transport, trust_env=False, follow_redirects=False, **options
    )


async def _checked(
    request: httpx.Request, policy: AddressPolicy, resolver: Resolver
) -> tuple[Address, ...]:
    host, url = _host(request), request.url
    port = url.port or _PORTS[url.scheme]
    try:
        if not isinstance(read_host(host), str):
            return pin(host, port, policy)
        return await _on_a_thread(partial(pin, host, port, policy, resolver=resolver))
    except AddressError as error:
        raise httpx.ConnectError(str(error), request=request) from error


def _sent_to(address: Address, request: httpx.Request) -> httpx.Request:
    host = _host(request)
    extensions = dict(request.extensions)
    if host != str(address):
        extensions["sni_hostname"] = host
    return httpx.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,
        stream=request.stream,
        extensions=extensions,
    )


def _host(request: httpx.Request) -> str:
    return request.url.raw_host.decode("ascii")


@cache
def _trust() -> ssl.SSLContext:
    """The authorities that this host trusts; reading them takes too long for each client."""
    return ssl.create_default_context()


def _on_a_thread(work: Callable[[], tuple[Address, ...]]) -> asyncio.Future[tuple[Address, ...]]:
    """On a thread of its own, left behind when its caller gives up: a resolver may hang long."""
    outcome: Future[tuple[Address, ...]] = Future()
    outcome.set_running_or_notify_cancel()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            outcome.set_exception(error)

    threading.Thread(target=run, name="resolve", daemon=True).start()
    return asyncio.wrap_future(outcome)
