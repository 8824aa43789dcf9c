"""The settings of this app."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from django.conf import settings

MAX_FILE_BYTES: Final = 2**20


def settings_file() -> Path:
    """configuration.yaml, wherever it lies."""
    return Path(settings.PLATFORM_SETTINGS_FILE)


def config_variables() -> Mapping[str, str]:
    """The variables PARTITA_CONFIG_… of the environment, and no others."""
    variables: Mapping[str, str] = settings.CONFIG_VARIABLES
    return variables


def in_cluster() -> bool:
    """Whether this process runs in a pod, whose account reaches its cluster."""
    return bool(settings.IN_CLUSTER)


def runs_processes() -> bool:
    """Steps of the backends of type `local` are child processes, not containers."""
    return bool(settings.LOCAL_RUNTIME == "process")
