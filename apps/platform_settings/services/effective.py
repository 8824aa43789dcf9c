"""The settings in force: backends, registries, overrides, secret managers, the mail server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apps.health.api import Probe, ProbeResult
from apps.observability.api import is_awaited
from apps.operations.api import MailServer
from apps.platform_settings import conf
from apps.platform_settings.domain.backends import (
    Backend,
    Mode,
    choose,
    label_backend,
    runtime_labels,
)
from apps.platform_settings.domain.document import Document, WorkspaceShare
from apps.platform_settings.domain.registries import ImageRegistry, credentials_for
from apps.platform_settings.domain.secrets import Override, SecretManagers
from apps.platform_settings.services.changes import RegistryNotFound
from apps.platform_settings.services.live_settings import SettingsSnapshot, live_settings
from apps.platform_settings.services.settings_file import settings_file
from kernel.ci_trust import TrustRule
from kernel.errors import known_names
from kernel.pull_credentials import PullCredentials

_TLS_PORT: Final = 465  # RFC 8314


def current() -> SettingsSnapshot:
    """Return the stored settings, after the import of a file that has changed."""
    if (recent := live_settings.recent()) is not None:
        return recent
    settings_file.import_changed()
    return live_settings.snapshot()


def _document() -> Document:
    return current().document


def backends() -> tuple[Backend, ...]:
    """Return the enabled backends in the order of the settings, or else the built-in one."""
    found, runtime = _document().backends, conf.local_runtime()
    if runtime not in runtime_labels:
        return found
    return tuple(label_backend(backend, runtime_labels[runtime]) for backend in found)


def mode() -> Mode:
    """Return the mode, which limits the choice when no backend is requested."""
    return _document().mode


def select_backend(requested: str, waits_for: Callable[[Backend], str]) -> Backend:
    """Choose the backend of a launch; `requested` is an id, `""` or `"auto"`.

    `waits_for` returns what a backend waits for, "" for one that is available. Raise
    BackendUnknown, BackendUnavailable.
    """
    return choose(backends(), requested, mode=mode(), waits_for=waits_for)


def workspace_shares() -> tuple[WorkspaceShare, ...]:
    """Return the workspaces that have a weight or limits of their own."""
    return _document().workspaces


def registries() -> tuple[ImageRegistry, ...]:
    """Return the registries in the order of the settings, with their secrets."""
    return _document().registries


def get_registry(registry_id: str) -> ImageRegistry:
    """Return a registry by its id; raise RegistryNotFound."""
    for registry in registries():
        if registry.registry_id == registry_id:
            return registry
    known = known_names(registry.registry_id for registry in registries())
    raise RegistryNotFound(f"there is no registry {registry_id[:128]!r}{known}")


def pull_credentials(image: str) -> PullCredentials | None:
    """Return the credentials for the registry of an image, or None."""
    return credentials_for(registries(), image)


def global_overrides() -> tuple[Override, ...]:
    """Return the variables of every step, in the order of the settings."""
    return _document().overrides


def ci_trust() -> tuple[TrustRule, ...]:
    """Return the rules by which CI jobs sign in, in the order of the settings."""
    return _document().ci_trust


def secret_managers() -> SecretManagers:
    """Return the stores of the secrets that profiles name."""
    return _document().managers


def mail_server() -> MailServer | None:
    """Return `notifications.smtp`: TLS at port 465, else STARTTLS where a password is sent.

    A request takes what this process read last, a few seconds ago: pages that need no session
    ask for it, and they need no store.
    """
    kept = live_settings.last_snapshot() if is_awaited() else None
    smtp = (kept or current()).document.smtp
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
    """Report ready when the last file was valid and the stored settings are usable here."""
    snapshot = current()
    if fault := settings_file.read().fault:
        return ProbeResult(ready=False, detail=f"the last good settings stay in force: {fault}")
    if snapshot.faults:
        first, *others = snapshot.faults
        more = f" (and {', '.join(each.pointer for each in others)})" if others else ""
        return ProbeResult(ready=False, detail=f"{first.pointer}: {first.detail}{more}")
    if snapshot.revision is not None and not snapshot.document.agents:
        return ProbeResult(ready=False, detail="the settings list no backend")
    count = len(snapshot.document.backends)
    return ProbeResult(ready=True, detail=f"{count} backend{'s' * (count != 1)} configured")


# Not required: the last good settings stay in force, and to take every server out of service for
# one secret that cannot be decrypted would help nobody.
PROBE: Final = Probe(name="platform-settings", required=False, check=probe)
