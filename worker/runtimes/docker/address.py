"""Where an engine listens, and how a connection to it is opened and trusted."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import docker
import docker.tls
import docker.utils
from requests.adapters import HTTPAdapter

from worker.domain.runtime import RuntimeOptions, RuntimeUnusable

READ_SIZE: Final = 256 * 1024
_DEFAULT: Final = "unix:///var/run/docker.sock"
_PORT: Final = 2375
_TLS_PORT: Final = 2376
_SOCKETS: Final = ("unix", "http+unix")


class AddressInvalid(RuntimeUnusable):
    """The message names no key material."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineAddress:
    """`url`: `unix://…`, `tcp://…`, `http://…` or `https://…`; `tls` where it is spoken."""

    url: str
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    @property
    def is_socket(self) -> bool:
        return urlsplit(self.url).scheme in _SOCKETS

    def sdk_options(self) -> dict[str, Any]:
        """What `docker.APIClient` needs."""
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
    """As Docker's own programs find it: DOCKER_HOST and its companions, else the usual socket."""
    options = docker.utils.kwargs_from_env()
    plain = EngineAddress(url=options.get("base_url") or _DEFAULT)
    tls = options.get("tls")
    if plain.is_socket or not isinstance(tls, docker.tls.TLSConfig):
        return plain
    return EngineAddress(url=plain.url, tls=_context_of(tls))


def address_of(url: str, *, certificate: str = "", key: str = "") -> EngineAddress:
    """`certificate` and `key`: PEM texts, of ours; the certificate's text may add authorities.

    TLS where either is given, or the URL is https. Raises AddressInvalid.
    """
    url = f"unix://{url}" if url.startswith("/") else url
    parts = _checked(url)
    if parts.scheme in _SOCKETS or not (certificate or key or parts.scheme == "https"):
        return EngineAddress(url=url)
    return EngineAddress(url=url, tls=_context(certificate, key))


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        place = parts.path if parts.scheme in _SOCKETS else parts.hostname
        if place and parts.scheme in (*_SOCKETS, "tcp", "http", "https") and parts.port != 0:
            return parts
    except ValueError:
        pass
    raise AddressInvalid("an engine's address is unix://, tcp:// or https:// and a place")


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
        raise AddressInvalid("tlsCert and tlsKey are no certificate and its key in PEM") from error
    return context


def _load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """The library reads files only: private ones, which live for this one call."""
    with tempfile.TemporaryDirectory(prefix="partita-tls-") as folder:
        paths = [Path(folder) / name for name in ("certificate.pem", "key.pem")]
        for path, text in zip(paths, (certificate, key), strict=True):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
        context.load_cert_chain(str(paths[0]), str(paths[1]))


def _context_of(tls: docker.tls.TLSConfig) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca_cert if tls.verify else None)
    if not tls.verify:  # as Docker's own programs take DOCKER_TLS_VERIFY
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if tls.cert:
        context.load_cert_chain(*tls.cert)
    return context


class _PreparedTls(docker.tls.TLSConfig):
    """A context of ours in the place of paths of files."""

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
        """Nothing to add: the context says whom to trust."""
