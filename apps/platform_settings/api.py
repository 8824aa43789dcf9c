"""Platform settings: which backends there are. Depends on system."""

from __future__ import annotations

from apps.platform_settings.domain.backends import (
    Backend,
    BackendUnavailable,
    BackendUnknown,
    Kind,
    Mode,
)
from apps.platform_settings.domain.registries import Credentials
from apps.platform_settings.domain.secrets import Override
from apps.platform_settings.selectors import (
    backends,
    global_overrides,
    mode,
    pull_credentials,
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
    "backends",
    "global_overrides",
    "mode",
    "pull_credentials",
    "select_backend",
]
