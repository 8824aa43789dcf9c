"""The Docker engine: where it listens, and calls of its SDK, each with a deadline.

The SDK runs on threads of its own. A call that reaches no engine is repeated for 30 s, then it
raises RuntimeUnavailable. Callers make their calls safe to repeat: names are deterministic, and
existing objects are looked up.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, urlsplit

import docker
import docker.errors
import docker.tls
import docker.utils
import msgspec
import requests
from requests.adapters import HTTPAdapter

from worker.domain.runtime import (
    UNAVAILABLE_AFTER_S,
    RuntimeFailure,
    RuntimeOptions,
    RuntimeUnavailable,
    RuntimeUnusable,
    Unit,
    UnitState,
)

READ_SIZE: Final = 256 * 1024
_DEFAULT: Final = "unix:///var/run/docker.sock"
_PORT: Final = 2375
_TLS_PORT: Final = 2376
_SOCKETS: Final = ("unix", "http+unix")
T = TypeVar("T")
THREADS: Final = 16
CALL_S: Final = 60
_PAUSE_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
_REPEAT_PAUSES_S: Final = (0.2, 1.0, 3.0)
APIError = docker.errors.APIError
NotFound = docker.errors.NotFound


class AddressInvalid(RuntimeUnusable):
    """The address of an engine is invalid; the message contains no key material."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineAddress:
    """`url`: `unix://…`, `tcp://…`, `http://…` or `https://…`; `tls` where it is spoken."""

    url: str
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    @property
    def is_socket(self) -> bool:
        return urlsplit(self.url).scheme in _SOCKETS

    def sdk_options(self) -> dict[str, Any]:
        """Return the arguments for `docker.APIClient`."""
        if self.tls is None:
            return {"base_url": self.url}
        parts = urlsplit(self.url)
        url = f"https://{parts.hostname}:{parts.port or _TLS_PORT}"
        return {"base_url": url, "tls": _PreparedTls(self.tls)}


def engine_address(options: RuntimeOptions) -> EngineAddress:
    """Raises AddressInvalid."""
    if not options.address:
        return default_address()
    return address_of(options.address, certificate=options.certificate, key=options.key)


def default_address() -> EngineAddress:
    """Return the engine that DOCKER_HOST and its companions name, else the usual socket."""
    options = docker.utils.kwargs_from_env()
    plain = EngineAddress(url=options.get("base_url") or _DEFAULT)
    tls = options.get("tls")
    if plain.is_socket or not isinstance(tls, docker.tls.TLSConfig):
        return plain
    return EngineAddress(url=plain.url, tls=_context_of(tls))


def address_of(url: str, *, certificate: str = "", key: str = "") -> EngineAddress:
    """Return an address; with TLS if a certificate or a key is given, or the URL is https.

    `certificate` and `key`: PEM texts of this client; the first may also contain authorities.
    Raises AddressInvalid.
    """
    url = f"unix://{url}" if url.startswith("/") else url
    parts = _check_url(url)
    if parts.scheme in _SOCKETS or not (certificate or key or parts.scheme == "https"):
        return EngineAddress(url=url)
    return EngineAddress(url=url, tls=_context(certificate, key))


def _check_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        place = parts.path if parts.scheme in _SOCKETS else parts.hostname
        if place and parts.scheme in (*_SOCKETS, "tcp", "http", "https") and parts.port != 0:
            return parts
    except ValueError:
        pass
    raise AddressInvalid("an engine's address must be a path, unix://, tcp:// or https:// URL")


async def connect(address: EngineAddress) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Raises OSError."""
    parts = urlsplit(address.url)
    if address.is_socket:
        return await asyncio.open_unix_connection(parts.path, limit=READ_SIZE)
    port = parts.port or (_TLS_PORT if address.tls else _PORT)
    return await asyncio.open_connection(parts.hostname, port, limit=READ_SIZE, ssl=address.tls)


def _context(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    try:
        if certificate:
            context.load_verify_locations(cadata=certificate)
        if key:
            _load_pair(context, certificate, key)
    except (ssl.SSLError, ValueError) as error:
        raise AddressInvalid("tlsCert and tlsKey must be PEM texts of a pair") from error
    return context


def _load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load the pair through private temporary files, because the library reads only files."""
    with tempfile.TemporaryDirectory(prefix="partita-tls-") as folder:
        paths = [Path(folder) / name for name in ("certificate.pem", "key.pem")]
        for path, text in zip(paths, (certificate, key), strict=True):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
        context.load_cert_chain(str(paths[0]), str(paths[1]))


def _context_of(tls: docker.tls.TLSConfig) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca_cert if tls.verify else None)
    if not tls.verify:  # as Docker's own programs interpret DOCKER_TLS_VERIFY
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if tls.cert:
        context.load_cert_chain(*tls.cert)
    return context


class _PreparedTls(docker.tls.TLSConfig):
    """A TLS configuration with a context instead of paths."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    def configure_client(self, client: docker.APIClient) -> None:
        client.verify = self._context.verify_mode is not ssl.CERT_NONE
        client.mount("https://", _Adapter(self._context))


class _Adapter(HTTPAdapter):
    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options, ssl_context=self._context)

    def cert_verify(self, *arguments: Any, **options: Any) -> None:
        """Do nothing: the context verifies the certificate."""


class RuntimeRefused(RuntimeFailure):
    """The engine answered with an error; the message is the engine's."""

    reason = "runtime_unavailable"


class _NoEngine(Exception):
    """The engine cannot be reached or misses the deadline: retry."""


class ContainerEngine:
    """The engine at an address, by default the one of the environment."""

    def __init__(
        self,
        address: EngineAddress | None = None,
        *,
        unavailable_after_s: float = UNAVAILABLE_AFTER_S,
    ) -> None:
        self.address = address or default_address()
        self._unavailable_after_s = unavailable_after_s
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="docker")
        self._connected: docker.APIClient | None = None
        self._lock = threading.Lock()

    async def call(
        self,
        use: Callable[[docker.APIClient], T],
        *,
        deadline_s: float = CALL_S,
        retry: bool = True,
    ) -> T:
        """Call the SDK. Raises APIError, NotFound, RuntimeUnavailable (at once without `retry`)."""
        now = asyncio.get_running_loop().time
        give_up = now() + (self._unavailable_after_s if retry else 0)
        tries = 0
        while True:
            try:
                return await self._once(use, deadline_s)
            except _NoEngine as error:
                if now() >= give_up:
                    raise RuntimeUnavailable(
                        f"the container runtime does not answer: {error}"
                    ) from error
            await asyncio.sleep(_PAUSE_S[min(tries, len(_PAUSE_S) - 1)])
            tries += 1

    async def _once(self, use: Callable[[docker.APIClient], T], deadline_s: float) -> T:
        running = asyncio.get_running_loop().run_in_executor(self._threads, self._run, use)
        try:
            async with asyncio.timeout(
                deadline_s
            ):  # wait_for of Python 3.11 may eat a cancellation
                return await running
        except TimeoutError:
            raise _NoEngine(f"no answer within {deadline_s:g} s") from None

    def _run(self, use: Callable[[docker.APIClient], T]) -> T:
        try:
            return use(self._client())
        except (docker.errors.APIError, RuntimeFailure):
            raise
        except docker.errors.DockerException as error:  # of the version question, the first request
            raise _NoEngine("no connection") from error
        except requests.exceptions.RequestException as error:
            raise _NoEngine(type(error).__name__) from error

    def _client(self) -> docker.APIClient:
        with self._lock:
            if self._connected is None:
                self._connected = docker.APIClient(
                    **self.address.sdk_options(),
                    version="auto",
                    timeout=CALL_S,
                    max_pool_size=THREADS,
                )
            return self._connected

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._connected:
            self._connected.close()


async def repeat_after_server_errors(work: Callable[[], Awaitable[T]]) -> T:
    """Do `work`, which may be done twice, again while the engine answers 5xx; at most four times.

    An engine under load answers so to what succeeds a second later. Raises the last APIError.
    """
    for pause_s in _REPEAT_PAUSES_S:
        try:
            return await work()
        except APIError as error:
            if not error.is_server_error():
                raise
        await asyncio.sleep(pause_s)
    return await work()


def explanation(error: docker.errors.APIError) -> str:
    """Return the engine's own message."""
    return str(error.explanation or error)


class _Health(msgspec.Struct, frozen=True, rename="pascal"):
    status: str = ""


class _HealthCheck(msgspec.Struct, frozen=True, rename="pascal"):
    test: tuple[str, ...] | None = None


class _State(msgspec.Struct, frozen=True, rename="pascal"):
    status: str
    started_at: str
    exit_code: int = 0
    oom_killed: bool = msgspec.field(default=False, name="OOMKilled")
    health: _Health | None = None


class _Config(msgspec.Struct, frozen=True, rename="pascal"):
    labels: dict[str, str] | None = None
    healthcheck: _HealthCheck | None = None
    working_dir: str = ""


class _Endpoint(msgspec.Struct, frozen=True):
    ip_address: str = msgspec.field(default="", name="IPAddress")


class _NetworkSettings(msgspec.Struct, frozen=True, rename="pascal"):
    networks: dict[str, _Endpoint | None] | None = None


class Container(msgspec.Struct, frozen=True, rename="pascal"):
    """What the runtime reads of an inspected container."""

    id: str
    name: str
    state: _State
    config: _Config
    network_settings: _NetworkSettings = _NetworkSettings()

    @property
    def has_health_check(self) -> bool:
        check = self.config.healthcheck
        return check is not None and bool(check.test) and check.test != ("NONE",)

    @property
    def is_healthy(self) -> bool:
        return self.state.health is not None and self.state.health.status == "healthy"

    def address_in(self, network: str) -> str:
        """Return the IPv4 address in a network; empty while the container does not run."""
        endpoint = (self.network_settings.networks or {}).get(network)
        return endpoint.ip_address if endpoint else ""


_UNIT_STATES: Final = {
    "created": UnitState.CREATED,
    "running": UnitState.RUNNING,
    "restarting": UnitState.RUNNING,
    "paused": UnitState.RUNNING,
}


def unit_state(status: str) -> UnitState:
    return _UNIT_STATES.get(status, UnitState.ENDED)


def unit_of(found: Container) -> Unit:
    """Return the unit that an inspected container is."""
    started = found.state.started_at
    return Unit(
        id=found.id,
        name=found.name.removeprefix("/"),
        state=unit_state(found.state.status),
        labels=found.config.labels or {},
        started_at=None
        if started.startswith("0001")
        else datetime.fromisoformat(f"{started[:23].rstrip('Z')}+00:00"),
    )


def inspect_container(unit_id: str) -> Callable[[docker.APIClient], Container]:
    """Return the call that inspects a container."""
    return lambda client: msgspec.convert(client.inspect_container(unit_id), Container)
