"""The platform settings as they are now: read from their file whenever its content changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from apps.platform_settings import conf
from apps.platform_settings.domain.backends import Backend, Mode, choose, not_isolated
from apps.platform_settings.domain.document import Document, SettingsInvalid, read_document
from apps.platform_settings.domain.registries import Credentials, credentials_for
from apps.platform_settings.domain.secrets import Override, SecretManagers
from apps.system.api import Probe, ProbeResult
from kernel.errors import FieldError

_log = logging.getLogger("partita.platform_settings")


class SettingsFile:
    """A file's last good document, and what is wrong with its present content.

    Without a file the document is the default one. The file is read at each call, and parsed when
    its bytes are not those of the last time: it is small, and times of change are too coarse.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: tuple[Path, bytes | None] | None = None
        self._document = Document()
        self._fault = ""

    def state(self) -> tuple[Document, str]:
        """The last good document, and what is wrong with the file now (empty: nothing)."""
        path = conf.settings_file()
        with self._lock:
            try:
                content = _content(path)
            except OSError as error:
                return self._document, f"{path.name}: {error.strerror}"
            if (path, content) != self._seen:
                self._seen = (path, content)
                self._take(path, content)
            return self._document, self._fault

    def _take(self, path: Path, content: bytes | None) -> None:
        try:
            self._document, self._fault = _parsed(path, content), ""
        except SettingsInvalid as error:
            self._fault = str(error)
            _log.error("platform settings stay as they were: %s", error)


_file = SettingsFile()


def backends() -> tuple[Backend, ...]:
    """The enabled backends in the file's order; the built-in one when there are none."""
    found = _file.state()[0].backends
    return tuple(map(not_isolated, found)) if conf.runs_processes() else found


def mode() -> Mode:
    """Which kinds are chosen when nobody asked for a certain backend."""
    return _file.state()[0].mode


def select_backend(requested: str, available: Callable[[Backend], bool]) -> Backend:
    """Choose where a launch runs; `requested` is an id, or `""` or `"auto"`.

    `available` tells whether an online supervisor serves a backend and its runtime answers.
    Raises BackendUnknown, BackendUnavailable.
    """
    document, _fault = _file.state()
    return choose(backends(), requested, mode=document.mode, available=available)


def pull_credentials(image: str) -> Credentials | None:
    """What the registry that an image comes from asks for; None: nothing is known."""
    return credentials_for(_file.state()[0].registries, image)


def global_overrides() -> tuple[Override, ...]:
    """Variables of every step, in the file's order."""
    return _file.state()[0].overrides


def secret_managers() -> SecretManagers:
    """Where to ask for the secrets that profiles name."""
    return _file.state()[0].managers


def probe() -> ProbeResult:
    """Ready when the file is valid or absent, and lists a backend if it is there."""
    document, fault = _file.state()
    if fault:
        return ProbeResult(ready=False, detail=f"the last good settings stay in force: {fault}")
    if not document.agents and conf.settings_file().exists():
        return ProbeResult(ready=False, detail="the settings file lists no backend")
    count = len(document.backends)
    return ProbeResult(ready=True, detail=f"{count} backend{'s' * (count != 1)} configured")


PROBE: Final = Probe(name="platform-settings", required=True, check=probe)


def _content(path: Path) -> bytes | None:
    """None when there is no file. Raises OSError."""
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
