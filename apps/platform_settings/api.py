"""Platform settings: backends, registries, overrides and secret managers. Depends on system."""

from __future__ import annotations

from apps.platform_settings.domain.backends import (
    Backend,
    BackendUnavailable,
    BackendUnknown,
    Kind,
    Mode,
)
from apps.platform_settings.domain.registries import Credentials
from apps.platform_settings.domain.secrets import Override, SecretManagers
from apps.platform_settings.selectors import (
    backends,
    global_overrides,
    mode,
    pull_credentials,
    secret_managers,
    select_backend,
)

__all__ = [
    "Backend",
    "BackendUnavailable",
    "BackendUnknown",
    "Credentials",
    "Kind",
    "Mode",
    "Override",
    "SecretManagers",
    "backends",
    "global_overrides",
    "mode",
    "pull_credentials",
    "secret_managers",
    "select_backend",
]
