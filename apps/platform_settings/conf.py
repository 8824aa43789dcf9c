"""The settings of this app."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from apps.platform_settings.domain.fields import Surroundings

MAX_FILE_BYTES: Final = 2**20


def settings_file() -> Path:
    """Return the path of configuration.yaml."""
    return Path(settings.PLATFORM_SETTINGS_FILE)


def default_sender() -> str:
    """Return the sender of mail where the file names none."""
    return f"partita@{urlsplit(settings.PUBLIC_API_URL).hostname or 'localhost'}"


def config_variables() -> Mapping[str, str]:
    """Return the variables PARTITA_CONFIG_… of the environment."""
    variables: Mapping[str, str] = settings.CONFIG_VARIABLES
    return variables


def in_cluster() -> bool:
    """Return whether this process runs in a pod, whose service account reaches its cluster."""
    return bool(settings.IN_CLUSTER)


def local_runtime() -> str:
    """Return the runtime of backends of type `local`."""
    return str(settings.LOCAL_RUNTIME)


def surroundings() -> Surroundings:
    """Return what the meaning of a settings document depends on in this process."""
    return Surroundings(
        variables=config_variables(), keys=encryption_keys(), in_cluster=in_cluster()
    )


def encryption_keys() -> tuple[str, ...]:
    """Return the keys of secrets at rest: the first encrypts, and every one decrypts."""
    return tuple(settings.ENCRYPTION_KEYS)
