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

PORTS: Final = {"http": 80, "https": 443}


class PinnedTransport(httpx.AsyncBaseTransport):
    """Each request resolves its host once and connects to what was checked.

    `Host` and, with TLS, the name that the certificate must have stay those of the URL. A client
    that follows redirects has each of them checked as well. What is refused or unknown raises
    httpx.ConnectError. Connections are not kept: one made for a name must not serve another that
    has the same address (`kernel.kept_connections` keeps them by name).
    """

    def __init__(
        self, policy: AddressPolicy, *, resolver: Resolver = resolve, connections: int = 10
    ) -> None:
        self._policy = policy
        self._resolver = resolver
        self._inner = httpx.AsyncHTTPTransport(
            verify=default_trust(),
            trust_env=False,
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=0),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        addresses = await _check_addresses(request, self._policy, self._resolver)
        for address in addresses[:-1]:
            with contextlib.suppress(httpx.ConnectError):
                return await self._inner.handle_async_request(_request_to(address, request))
        return await self._inner.handle_async_request(_request_to(addresses[-1], request))

    async def aclose(self) -> None:
        await self._inner.aclose()


def pinned_client(
    policy: AddressPolicy, *, resolver: Resolver = resolve, connections: int = 10, **options: Any
) -> httpx.AsyncClient:
    """Return a client without redirects, proxies or other settings of the environment."""
    transport = PinnedTransport(policy, resolver=resolver, connections=connections)
    return httpx.AsyncClient(
        transport=transport, trust_env=False, follow_redirects=False, **options
    )


async def _check_addresses(
    request: httpx.Request, policy: AddressPolicy, resolver: Resolver
) -> tuple[Address, ...]:
    host, url = _host(request), request.url
    try:
        return await pin_host(host, url.port or PORTS[url.scheme], policy, resolver)
    except AddressError as error:
        raise httpx.ConnectError(str(error), request=request) from error


async def pin_host(
    host: str, port: int, policy: AddressPolicy, resolver: Resolver = resolve
) -> tuple[Address, ...]:
    """Return the checked addresses of a host, best first; raise AddressError."""
    if not isinstance(read_host(host), str):
        return pin(host, port, policy)
    return await _on_a_thread(partial(pin, host, port, policy, resolver=resolver))


def _request_to(address: Address, request: httpx.Request) -> httpx.Request:
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
def default_trust() -> ssl.SSLContext:
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
