"""The settings of this app."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

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
