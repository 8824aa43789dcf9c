"""The guarded proxy, imported with the first request that it sends: its client takes long.

The event loop goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from mocks.model.ports import ProxyAnswer

if TYPE_CHECKING:
    from kernel.addresses import Network
    from mocks.proxies.guarded import GuardedProxy


class LazyProxy:
    """Implements Proxy with the arguments of GuardedProxy."""

    def __init__(
        self,
        *,
        allowed: Sequence[Network],
        is_own_secret: Callable[[str], bool] = lambda _text: False,
    ) -> None:
        self._allowed = allowed
        self._is_own_secret = is_own_secret
        self._proxy: GuardedProxy | None = None

    def open(self) -> GuardedProxy:
        """Open the proxy, at first, and return it."""
        if self._proxy is None:
            from mocks.proxies.guarded import GuardedProxy

            self._proxy = GuardedProxy(allowed=self._allowed, is_own_secret=self._is_own_secret)
        return self._proxy

    async def forward(
        self,
        url: str,
        *,
        method: str,
        headers: Mapping[str, str],
        body: bytes,
        let_through: frozenset[str],
    ) -> ProxyAnswer:
        proxy = self._proxy
        if proxy is None:
            proxy = await asyncio.to_thread(self.open)
        return await proxy.forward(
            url, method=method, headers=headers, body=body, let_through=let_through
        )
