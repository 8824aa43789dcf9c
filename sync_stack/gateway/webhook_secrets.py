"""The webhook secrets of platforms, resolved off the event loop and cached for seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol

from sync_stack.configuration.secrets import SecretError
from sync_stack.core.bundle.platforms import Platform
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.git_platform import git_platform
from sync_stack.core.signatures import BadSigningSecret, Keys, webhook_keys

CACHE_S: Final = 5.0  # changed files and rotated secrets are used after this time


class WebhookSecretUnavailable(Exception):
    """A secret cannot be resolved now; the message names the platform, never the secret."""


class WebhookSecretResolver(Protocol):
    def resolve(self, ref: SecretRef) -> str: ...


@dataclass(frozen=True, slots=True)
class _CachedKeys:
    platform: Platform
    keys: Keys
    until: float


class WebhookSecrets:
    """Resolves each platform once at a time; failures are not cached."""

    def __init__(self, resolver: WebhookSecretResolver, clock: Callable[[], float]) -> None:
        self._resolver = resolver
        self._clock = clock
        self._cache: dict[str, _CachedKeys] = {}
        self._fetches: dict[int, asyncio.Future[Keys]] = {}
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="keys")
        self.failing: dict[str, str] = {}  # platforms whose last resolution failed, and why

    async def of(self, platform: Platform) -> Keys:
        """Return the keys; empty without a secret. Raises WebhookSecretUnavailable."""
        kept = self._cache.get(platform.name)
        if kept is not None and kept.platform is platform and kept.until > self._clock():
            return kept.keys
        fetch = self._fetches.get(id(platform))
        if fetch is None:
            loop = asyncio.get_running_loop()
            fetch = loop.run_in_executor(self._threads, self._resolve, platform)
            self._fetches[id(platform)] = fetch
            fetch.add_done_callback(lambda done: self._finish(platform, done))
        return await asyncio.shield(fetch)

    def forget(self) -> None:
        """Forget everything after a reload: platforms may be gone."""
        self._cache.clear()
        self.failing.clear()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _finish(self, platform: Platform, fetch: asyncio.Future[Keys]) -> None:
        self._fetches.pop(id(platform), None)
        if fetch.cancelled():
            return
        error = fetch.exception()
        if error is not None:
            self.failing[platform.name] = str(error)
            return
        self.failing.pop(platform.name, None)
        kept = _CachedKeys(platform, fetch.result(), self._clock() + CACHE_S)
        self._cache[platform.name] = kept

    def _resolve(self, platform: Platform) -> Keys:
        try:
            secrets, signing = (
                [self._resolver.resolve(ref) for ref in refs if ref is not None]
                for refs in (
                    (platform.secret, platform.secret_previous),
                    (platform.signing_secret,),
                )
            )
            if not git_platform(platform).has_signing_secret:
                return Keys(secrets=tuple(secret.encode() for secret in secrets))
            return webhook_keys(secrets, signing)
        except (SecretError, BadSigningSecret) as error:
            raise WebhookSecretUnavailable(
                f"the webhook secret of {platform.name} cannot be read: {error}"
            ) from None
