"""SecretRefs resolved: as written, from the environment, from files, from secret managers.

    SecretError             the message names the reference, never a value
    ├── UnreadableSecret    unset, unreadable or empty here: nothing will change by itself
    └── SecretUnavailable   the manager does not answer or refuses
        └── SecretAbsent    there is no such manager, path or key: asking again changes nothing

Every secret that comes out is known to the redactor before anybody else sees it; user names,
which are resolved the same way, are not masked.
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
from sync_stack.configuration.bundle_file import Needs
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
_MOST_KEPT: Final = 10_000
Clock = Callable[[], float]
Observer = Callable[[str, str], None]  # manager, outcome: ok or error


class SecretError(Exception):
    """A secret cannot be had."""


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
class _Kept:
    value: str
    until: float


@dataclass(frozen=True, slots=True)
class _FileRead:
    mtime_ns: int
    size: int
    value: str


class SecretResolver:
    """Resolves the secrets of one process; safe for threads. Calls block: up to 10 s for a manager.

    Values of a manager are kept 5 minutes, failures are not; callers that want the same one at
    the same time share one fetch.
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
        self._kept: dict[tuple[SecretManager, str, str], _Kept] = {}
        self._under_way: dict[tuple[SecretManager, str, str], Future[str]] = {}
        self._files: dict[str, _FileRead] = {}
        self._changing = threading.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="secrets")
        self._observers: list[Observer] = []

    def use(self, bundle: Bundle) -> None:
        """Know this bundle's managers, and mask what the bundle holds in plain text.

        Managers of the bundle before stay known: an attempt under way may still name them.
        """
        self.mask_texts(bundle)
        with self._changing:
            self._managers |= {manager.name: manager for manager in bundle.secret_managers}

    def mask_texts(self, bundle: Bundle) -> None:
        """Before anything of it may be logged, also of a bundle that is refused later."""
        self._register.add(*texts_to_mask(bundle))

    def on_fetch(self, observer: Observer) -> None:
        """Called after each fetch from a manager, for metrics."""
        self._observers.append(observer)

    def resolve(self, ref: SecretRef, names: Mapping[str, str] | None = None) -> str:
        """The secret. Raises UnreadableSecret, SecretUnavailable.

        `names` are what a manager's path_prefix may hold (`env`, `repo` …), for secrets of files.
        """
        value = self._managed(ref, names or {}) if ref.is_managed else self._local(ref)
        if ref.masked:
            self._register.add(value)
        return value

    def resolve_optional(self, ref: SecretRef | None) -> str:
        """Empty without a reference."""
        return self.resolve(ref) if ref else ""

    def forget(self, ref: SecretRef, names: Mapping[str, str] | None = None) -> None:
        """Fetch it anew next time: whoever was given it says that it no longer works."""
        with self._changing:
            manager = self._managers.get(ref.manager)
            if manager:
                path = _whole_path(manager, ref, names or {})
                self._kept.pop((manager, path, ref.key), None)

    def close(self) -> None:
        with self._changing:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _local(self, ref: SecretRef) -> str:
        if ref.value:
            return ref.value
        return self._variable(ref.env) if ref.env else self._file(ref.file)

    def _variable(self, name: str) -> str:
        value = self._variables.get(name, "")
        if not value.strip():
            raise UnreadableSecret(f"the environment variable {name} is not set")
        return value

    def _file(self, path: str) -> str:
        """The content without surrounding white space, read again when the file changed."""
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
            raise UnreadableSecret(f"{path} is no text in UTF-8") from None
        if not value:
            raise UnreadableSecret(f"{path} is empty")
        self._files[path] = _FileRead(found.st_mtime_ns, found.st_size, value)
        return value

    def _managed(self, ref: SecretRef, names: Mapping[str, str]) -> str:
        with self._changing:
            manager = self._manager(ref)
            key = (manager, _whole_path(manager, ref, names), ref.key)
            kept = self._kept.get(key)
            if kept and kept.until > self._clock():
                return kept.value
            fetch = self._under_way.get(key) or self._begin(key)
        try:
            return fetch.result(timeout=self._timeout_s)
        except TimeoutError:
            raise SecretUnavailable(f"{ref}: no answer within {self._timeout_s:g} s") from None
        except CancelledError:
            raise SecretUnavailable(f"{ref}: this process is stopping") from None

    def _manager(self, ref: SecretRef) -> SecretManager:
        if ref.manager not in self._managers:
            raise SecretAbsent(f'there is no secret manager "{ref.manager}"')
        return self._managers[ref.manager]

    def _begin(self, key: tuple[SecretManager, str, str]) -> Future[str]:
        """Whoever comes while it is under way shares it. Called under the lock."""
        fetch = self._threads.submit(self._fetch, *key)
        self._under_way[key] = fetch
        return fetch

    def _fetch(self, manager: SecretManager, path: str, key: str) -> str:
        try:
            value = self._client(manager).fetch(path, key)
            self._keep((manager, path, key), value)
        except SecretError:
            self._observed(manager, "error")
            raise
        else:
            self._observed(manager, "ok")
            return value
        finally:
            with self._changing:
                self._under_way.pop((manager, path, key), None)

    def _keep(self, key: tuple[SecretManager, str, str], value: str) -> None:
        """Bounded: paths may come from the files of repositories."""
        now = self._clock()
        with self._changing:
            if len(self._kept) >= _MOST_KEPT:
                fresh = {old: kept for old, kept in self._kept.items() if kept.until > now}
                self._kept = fresh if len(fresh) < _MOST_KEPT else {}
            self._kept[key] = _Kept(value, now + CACHE_S)

    def _client(self, manager: SecretManager) -> ManagerClient:
        """One client a manager, kept as long as its settings stay the same."""
        with self._changing:
            if manager not in self._clients:
                self._clients[manager] = self._open_client(manager, self)
            return self._clients[manager]

    def _observed(self, manager: SecretManager, outcome: str) -> None:
        for observer in self._observers:
            observer(manager.name, outcome)


def _whole_path(manager: SecretManager, ref: SecretRef, names: Mapping[str, str]) -> str:
    """Below the manager's prefix. Raises SecretAbsent for what would be no plain path.

    Paths in files of repositories, the ones that come with `names`, already begin with it.
    """
    try:
        prefix = render(manager.path_prefix, names)
    except KeyError as missing:
        message = f"{ref}: the path_prefix of {manager.name} has {missing}, which is not known here"
        raise SecretAbsent(message) from None
    is_below = bool(names) and f"{ref.path}/".startswith(f"{prefix}/")
    path = f"{prefix}/{ref.path}" if prefix and not is_below else ref.path
    if not is_safe_path(path):
        raise SecretAbsent(f"{manager.name}: {path!r} is no path of a secret")
    return path


def unreadable(
    refs: Iterable[SecretRef], resolver: SecretResolver, *, file: str, managed: bool = False
) -> list[Diagnostic]:
    """What cannot be resolved, as errors of the bundle; `managed`: also asks secret managers."""
    complaints = []
    for ref in refs:
        if ref.is_managed and not managed:
            continue
        try:
            resolver.resolve(ref)
        except SecretError as error:
            complaints.append(complaint_at(file, ref.location, "unreadable_secret", str(error)))
    return complaints


def needs_of(process: Process, resolver: SecretResolver, *, file: str) -> Needs:
    """The process's own secrets can be read; managers are asked at first use, not here."""

    def check(bundle: Bundle) -> list[Diagnostic]:
        resolver.mask_texts(bundle)
        return unreadable(secrets_used(bundle, process), resolver, file=file)

    return Needs(check=check, prepare=resolver.use)
