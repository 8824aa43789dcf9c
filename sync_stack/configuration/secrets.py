"""The resolver of SecretRefs: plain values, variables, files and secret managers.

    SecretError             the message names the reference, never a value
    ├── UnreadableSecret    unset, unreadable or empty on this machine
    └── SecretUnavailable   the manager does not answer, or refuses
        └── SecretAbsent    there is no such manager, path or key: a retry does not help

Every resolved secret is registered for redaction before it is returned, except user names.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from kernel.redaction import SecretRegister, known_secrets
from readers.diagnostics import Diagnostic
from sync_stack.configuration.bundle_file import BundleHooks
from sync_stack.core.bundle.diagnostics import complaint_at
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.secret_managers import SecretManager
from sync_stack.core.bundle.secret_use import Process, secrets_used, texts_to_mask
from sync_stack.core.bundle.secrets import SecretRef, is_safe_path
from sync_stack.core.templates import render

CACHE_S: Final = 300.0
TIMEOUT_S: Final = 10.0
_MAX_FILE: Final = 2**20
_THREADS: Final = 4
_MAX_CACHED: Final = 10_000
Clock = Callable[[], float]
Observer = Callable[[str, str], None]  # manager, outcome: ok or error


class SecretError(Exception):
    """A secret cannot be resolved."""


class UnreadableSecret(SecretError):
    pass


class SecretUnavailable(SecretError):
    pass


class SecretAbsent(SecretUnavailable):
    pass


class ManagerClient(Protocol):
    """A signed-in client of one secret manager."""

    def fetch(self, path: str, key: str) -> str:
        """Raises SecretUnavailable."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _CachedSecret:
    value: str
    until: float


@dataclass(frozen=True, slots=True)
class _FileRead:
    mtime_ns: int
    size: int
    value: str


class SecretResolver:
    """Resolves the secrets of one process; safe for threads; blocks for a manager, up to 10 s.

    Values of a manager are cached for 5 minutes, failures are not. Concurrent callers of one secret
    share one fetch.
    """

    def __init__(
        self,
        open_client: Callable[[SecretManager, SecretResolver], ManagerClient],
        *,
        variables: Mapping[str, str],
        register: SecretRegister = known_secrets,
        clock: Clock = time.monotonic,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._open_client = open_client
        self._variables = variables
        self._register = register
        self._clock = clock
        self._timeout_s = timeout_s
        self._managers: dict[str, SecretManager] = {}
        self._clients: dict[SecretManager, ManagerClient] = {}
        self._cache: dict[tuple[SecretManager, str, str], _CachedSecret] = {}
        self._fetches: dict[tuple[SecretManager, str, str], Future[str]] = {}
        self._files: dict[str, _FileRead] = {}
        self._changing = threading.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="secrets")
        self._observers: list[Observer] = []

    def use(self, bundle: Bundle) -> None:
        """Add the bundle's managers and mask its plain-text secrets.

        Earlier managers stay: an attempt in progress may still name them.
        """
        self.mask_texts(bundle)
        with self._changing:
            self._managers |= {manager.name: manager for manager in bundle.secret_managers}

    def mask_texts(self, bundle: Bundle) -> None:
        """Mask the bundle's plain-text secrets; call before anything of it may be logged."""
        self._register.add(*texts_to_mask(bundle))

    def on_fetch(self, observer: Observer) -> None:
        """Call `observer` after each fetch from a manager."""
        self._observers.append(observer)

    def resolve(self, ref: SecretRef, names: Mapping[str, str] | None = None) -> str:
        """Return the secret. Raises UnreadableSecret, SecretUnavailable.

        `names` fill the placeholders of a path_prefix (`env`, `repo` …), for secrets in files.
        """
        if ref.is_managed:
            value = self._read_managed(ref, names or {})
        else:
            value = ref.value or (self._variable(ref.env) if ref.env else self._file(ref.file))
        if ref.masked:
            self._register.add(value)
        return value

    def forget(self, ref: SecretRef, names: Mapping[str, str] | None = None) -> None:
        """Drop a cached secret that no longer works."""
        with self._changing:
            manager = self._managers.get(ref.manager)
            if manager:
                path = _full_path(manager, ref, names or {})
                self._cache.pop((manager, path, ref.key), None)

    def close(self) -> None:
        with self._changing:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _variable(self, name: str) -> str:
        value = self._variables.get(name, "")
        if not value.strip():
            raise UnreadableSecret(f"the environment variable {name} is not set")
        return value

    def _file(self, path: str) -> str:
        """Return the stripped content, read again when the file changed."""
        try:
            found = Path(path).stat()
            read = self._files.get(path)
            if read and (read.mtime_ns, read.size) == (found.st_mtime_ns, found.st_size):
                return read.value
            if found.st_size > _MAX_FILE:
                raise UnreadableSecret(f"{path} is larger than {_MAX_FILE} bytes")
            value = Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise UnreadableSecret(f"{path} cannot be read: {error.strerror}") from None
        except ValueError:
            raise UnreadableSecret(f"{path} is not UTF-8 text") from None
        if not value:
            raise UnreadableSecret(f"{path} is empty")
        self._files[path] = _FileRead(found.st_mtime_ns, found.st_size, value)
        return value

    def _read_managed(self, ref: SecretRef, names: Mapping[str, str]) -> str:
        with self._changing:
            manager = self._managers.get(ref.manager)
            if manager is None:
                raise SecretAbsent(f'the bundle has no secret manager "{ref.manager}"')
            key = (manager, _full_path(manager, ref, names), ref.key)
            cached = self._cache.get(key)
            if cached and cached.until > self._clock():
                return cached.value
            fetch = self._fetches.get(key)
            if fetch is None:
                fetch = self._fetches[key] = self._threads.submit(self._fetch, *key)
        try:
            return fetch.result(timeout=self._timeout_s)
        except TimeoutError:
            raise SecretUnavailable(f"{ref}: no answer within {self._timeout_s:g} s") from None
        except CancelledError:
            raise SecretUnavailable(f"{ref}: this process is stopping") from None

    def _fetch(self, manager: SecretManager, path: str, key: str) -> str:
        try:
            value = self._client(manager).fetch(path, key)
            self._store((manager, path, key), value)
        except SecretError:
            self._report(manager, "error")
            raise
        else:
            self._report(manager, "ok")
            return value
        finally:
            with self._changing:
                self._fetches.pop((manager, path, key), None)

    def _store(self, key: tuple[SecretManager, str, str], value: str) -> None:
        """Cache a value, bounded: paths may come from the files of repositories."""
        now = self._clock()
        with self._changing:
            if len(self._cache) >= _MAX_CACHED:
                fresh = {old: cached for old, cached in self._cache.items() if cached.until > now}
                self._cache = fresh if len(fresh) < _MAX_CACHED else {}
            self._cache[key] = _CachedSecret(value, now + CACHE_S)

    def _client(self, manager: SecretManager) -> ManagerClient:
        """Return the client of a manager, which is cached while its settings stay the same."""
        with self._changing:
            if manager not in self._clients:
                self._clients[manager] = self._open_client(manager, self)
            return self._clients[manager]

    def _report(self, manager: SecretManager, outcome: str) -> None:
        for observer in self._observers:
            observer(manager.name, outcome)


def _full_path(manager: SecretManager, ref: SecretRef, names: Mapping[str, str]) -> str:
    """Return the path below the manager's prefix. Raises SecretAbsent for an unsafe path.

    Paths in files of repositories, which come with `names`, already begin with the prefix.
    """
    try:
        prefix = render(manager.path_prefix, names)
    except KeyError as missing:
        message = f"{ref}: the path_prefix of {manager.name} has {missing}, which has no value here"
        raise SecretAbsent(message) from None
    is_below = bool(names) and f"{ref.path}/".startswith(f"{prefix}/")
    path = f"{prefix}/{ref.path}" if prefix and not is_below else ref.path
    if not is_safe_path(path):
        raise SecretAbsent(f"{manager.name}: {path!r} is not a valid path of a secret")
    return path


def unreadable(
    refs: Iterable[SecretRef], resolver: SecretResolver, *, file: str, managed: bool = False
) -> list[Diagnostic]:
    """Return errors of the bundle for secrets that cannot be resolved.

    Secret managers are asked only with `managed`.
    """
    complaints = []
    for ref in refs:
        if ref.is_managed and not managed:
            continue
        try:
            resolver.resolve(ref)
        except SecretError as error:
            complaints.append(complaint_at(file, ref.location, "unreadable_secret", str(error)))
    return complaints


def bundle_hooks(process: Process, resolver: SecretResolver, *, file: str) -> BundleHooks:
    """Check that the process can read its own secrets; managers are asked at first use."""

    def check(bundle: Bundle) -> list[Diagnostic]:
        resolver.mask_texts(bundle)
        return unreadable(secrets_used(bundle, process), resolver, file=file)

    return BundleHooks(check=check, prepare=resolver.use)
