"""Platform settings: backends, registries, overrides and secret managers. Depends on system."""

from __future__ import annotations

from apps.platform_settings.conf import local_runtime
from apps.platform_settings.domain.backends import (
    NOT_ISOLATED,
    Backend,
    BackendUnavailable,
    BackendUnknown,
    Kind,
    Mode,
    runtime_labels,
)
from apps.platform_settings.domain.registries import Credentials, ImageRegistry, RegistryNotFound
from apps.platform_settings.domain.secrets import Override, SecretManagers
from apps.platform_settings.selectors import (
    backends,
    get_registry,
    global_overrides,
    mode,
    pull_credentials,
    registries,
    secret_managers,
    select_backend,
)

__all__ = [
    "NOT_ISOLATED",
    "Backend",
    "BackendUnavailable",
    "BackendUnknown",
    "Credentials",
    "ImageRegistry",
    "Kind",
    "Mode",
    "Override",
    "RegistryNotFound",
    "SecretManagers",
    "backends",
    "get_registry",
    "global_overrides",
    "local_runtime",
    "mode",
    "pull_credentials",
    "registries",
    "runtime_labels",
    "secret_managers",
    "select_backend",
]
