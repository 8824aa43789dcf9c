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
)
from apps.platform_settings.domain.changes import Change
from apps.platform_settings.domain.keys import MASK, Key, KeyGroup, key_group
from apps.platform_settings.domain.registries import Credentials, ImageRegistry
from apps.platform_settings.domain.secret_refs import (
    known_secret_providers,
    provider_of,
    reference_problem,
)
from apps.platform_settings.domain.secrets import Override, SecretManagers
from apps.platform_settings.domain.workspaces import WorkspaceShare
from apps.platform_settings.services.changes import RegistryNotFound, record_sync
from apps.platform_settings.services.documents import (
    PastChange,
    preview_settings,
    replace_settings,
    settings_document,
    settings_history,
    settings_in_file,
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
    workspace_shares,
)
from apps.platform_settings.services.entity_tags import SettingsChanged, settings_etag
from apps.platform_settings.services.live_settings import recent_settings
from apps.platform_settings.services.secret_values import (
    SecretUnreadable,
    check_secret_provider,
    secret_provider_titles,
    secret_value,
)

__all__ = [
    "MASK",
    "NOT_ISOLATED",
    "Backend",
    "BackendState",
    "BackendUnavailable",
    "BackendUnknown",
    "Change",
    "Credentials",
    "ImageRegistry",
    "Key",
    "KeyGroup",
    "Kind",
    "Mode",
    "Override",
    "PastChange",
    "RegistryNotFound",
    "SecretManagers",
    "SecretUnreadable",
    "SettingsChanged",
    "WorkspaceShare",
    "backends",
    "check_secret_provider",
    "get_registry",
    "global_overrides",
    "key_group",
    "known_secret_providers",
    "local_runtime",
    "mode",
    "preview_settings",
    "provider_of",
    "pull_credentials",
    "recent_settings",
    "record_sync",
    "reference_problem",
    "registries",
    "replace_settings",
    "secret_managers",
    "secret_provider_titles",
    "secret_value",
    "select_backend",
    "settings_document",
    "settings_etag",
    "settings_history",
    "settings_in_file",
    "workspace_shares",
]
