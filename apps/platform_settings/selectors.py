"""Reads of the platform settings, whose file is parsed again when its content changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from apps.health.api import Probe, ProbeResult
from apps.operations.api import MailServer
from apps.platform_settings import conf
from apps.platform_settings.domain.backends import (
    Backend,
    Mode,
    choose,
    labelled,
    runtime_labels,
)
from apps.platform_settings.domain.document import Document, SettingsInvalid, read_document
from apps.platform_settings.domain.registries import (
    Credentials,
    ImageRegistry,
    RegistryNotFound,
    credentials_for,
)
from apps.platform_settings.domain.secrets import Override, SecretManagers
from kernel.errors import FieldError

_TLS_PORT: Final = 465  # RFC 8314
_log = logging.getLogger("partita.platform_settings")


class SettingsFile:
    """The last valid document of the file, and the error of its current content.

    Without a file, the document has the defaults. The file is read at each call, because it is
    small and modification times are too coarse, and parsed when its bytes have changed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: tuple[Path, bytes | None] | None = None
        self._document = Document()
        self._fault = ""

    def state(self) -> tuple[Document, str]:
        """Return the last valid document and the error of the current file, or ""."""
        path = conf.settings_file()
        with self._lock:
            try:
                content = _content(path)
            except OSError as error:
                return self._document, f"{path.name}: {error.strerror}"
            if (path, content) != self._seen:
                self._seen = (path, content)
                self._update(path, content)
            return self._document, self._fault

    def _update(self, path: Path, content: bytes | None) -> None:
        try:
            self._document, self._fault = _parsed(path, content), ""
        except SettingsInvalid as error:
            self._fault = str(error)
            _log.error("The platform settings are invalid and remain unchanged: %s", error)


_file = SettingsFile()


def backends() -> tuple[Backend, ...]:
    """Return the enabled backends in the file's order, or else the built-in one."""
    found, runtime = _file.state()[0].backends, conf.local_runtime()
    if runtime not in runtime_labels:
        return found
    return tuple(labelled(backend, runtime_labels[runtime]) for backend in found)


def mode() -> Mode:
    """Return the mode, which limits the choice when no backend is requested."""
    return _file.state()[0].mode


def select_backend(requested: str, available: Callable[[Backend], bool]) -> Backend:
    """Choose the backend of a launch; `requested` is an id, `""` or `"auto"`.

    `available` returns whether an online supervisor with a working runtime serves a backend.
    Raise BackendUnknown, BackendUnavailable.
    """
    document, _fault = _file.state()
    return choose(backends(), requested, mode=document.mode, available=available)


def pull_credentials(image: str) -> Credentials | None:
    """Return the credentials for the registry of an image, or None."""
    return credentials_for(_file.state()[0].registries, image)


def registries() -> tuple[ImageRegistry, ...]:
    """Return the registries in the order of the settings."""
    return _file.state()[0].registries


def get_registry(registry_id: str) -> ImageRegistry:
    """Return a registry by its id in any case; raise RegistryNotFound."""
    for registry in registries():
        if registry.registry_id.lower() == registry_id.lower():
            return registry
    raise RegistryNotFound(f"the platform settings have no registry {registry_id!r}")


def global_overrides() -> tuple[Override, ...]:
    """Return the variables of every step, in the file's order."""
    return _file.state()[0].overrides


def secret_managers() -> SecretManagers:
    """Return the stores of the secrets that profiles name."""
    return _file.state()[0].managers


def mail_server() -> MailServer | None:
    """Return `notifications.smtp`: TLS at port 465, else STARTTLS where a password is sent."""
    smtp = _file.state()[0].smtp
    if smtp is None:
        return None
    return MailServer(
        host=smtp.host,
        port=smtp.port,
        username=smtp.username,
        password=smtp.password,
        use_ssl=smtp.port == _TLS_PORT,
        use_tls=smtp.port != _TLS_PORT and bool(smtp.username),
        sender=smtp.sender or conf.default_sender(),
    )


def probe() -> ProbeResult:
    """Report ready when there is no file, or a valid one that lists a backend."""
    document, fault = _file.state()
    if fault:
        return ProbeResult(ready=False, detail=f"the last good settings stay in force: {fault}")
    if not document.agents and conf.settings_file().exists():
        return ProbeResult(ready=False, detail="the settings file lists no backend")
    count = len(document.backends)
    return ProbeResult(ready=True, detail=f"{count} backend{'s' * (count != 1)} configured")


PROBE: Final = Probe(name="platform-settings", required=True, check=probe)


def _content(path: Path) -> bytes | None:
    """Return the content, or None without a file; raise OSError."""
    try:
        with path.open("rb") as file:
            return file.read(conf.MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None


def _parsed(path: Path, content: bytes | None) -> Document:
    if content is None:
        return Document()
    if len(content) > conf.MAX_FILE_BYTES:
        raise _invalid(path, f"is larger than {conf.MAX_FILE_BYTES} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise _invalid(path, f"is not UTF-8 (byte {error.start})") from None
    return read_document(
        text, file=path.name, variables=conf.config_variables(), in_cluster=conf.in_cluster()
    )


def _invalid(path: Path, detail: str) -> SettingsInvalid:
    return SettingsInvalid([FieldError(code="invalid_value", detail=detail, file=path.name)])
