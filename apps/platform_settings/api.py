"""Platform settings: backends, registries, overrides and secret managers, stored and changed."""

from __future__ import annotations

from apps.platform_settings.conf import local_runtime
from apps.platform_settings.domain.backends import (
    NOT_ISOLATED,
    Backend,
    BackendState,
    BackendUnavailable,
    BackendUnknown,
    Kind,
    Mode,
    backend_states,
    runtime_labels,
)
from apps.platform_settings.domain.registries import Credentials, ImageRegistry
from apps.platform_settings.domain.secrets import Override, SecretManagers
from apps.platform_settings.services.changes import RegistryNotFound, record_sync
from apps.platform_settings.services.documents import (
    SettingsChanged,
    replace_settings,
    settings_document,
    settings_etag,
)
from apps.platform_settings.services.effective import (
    backends,
    get_registry,
    global_overrides,
    mode,
    pull_credentials,
    registries,
    secret_managers,
    select_backend,
)
from apps.platform_settings.services.live_settings import recent_settings

__all__ = [
    "NOT_ISOLATED",
    "Backend",
    "BackendState",
    "BackendUnavailable",
    "BackendUnknown",
    "Credentials",
    "ImageRegistry",
    "Kind",
    "Mode",
    "Override",
    "RegistryNotFound",
    "SecretManagers",
    "SettingsChanged",
    "backend_states",
    "backends",
    "get_registry",
    "global_overrides",
    "local_runtime",
    "mode",
    "pull_credentials",
    "recent_settings",
    "record_sync",
    "registries",
    "replace_settings",
    "runtime_labels",
    "secret_managers",
    "select_backend",
    "settings_document",
    "settings_etag",
]
