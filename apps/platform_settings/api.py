"""Platform settings: backends, registries, overrides and secret managers, stored and changed."""

from __future__ import annotations

from apps.platform_settings.conf import local_runtime
from apps.platform_settings.domain.backends import (
    NOT_ISOLATED,
    Backend,
    BackendState,
    BackendUnavailable,
)
from apps.platform_settings.domain.changes import Change
from apps.platform_settings.domain.document import SettingsTree
from apps.platform_settings.domain.keys import MASK, Key, KeyGroup, key_group
from apps.platform_settings.domain.registries import ImageRegistry
from apps.platform_settings.domain.secrets import (
    known_secret_providers,
    provider_of,
    reference_problem,
)
from apps.platform_settings.services.changes import RegistryNotFound, record_sync
from apps.platform_settings.services.documents import (
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
    pull_credentials,
    registries,
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
