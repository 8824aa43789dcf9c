"""The settings of this app."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from apps.platform_settings.domain.fields import SettingsContext
from apps.platform_settings.domain.replacement import MAX_BYTES
from kernel.mirrored_file import MirroredFile

_READABLE: Final = "PARTITA_SECRET_"  # the prefix of variables


def settings_file() -> MirroredFile:
    """Return configuration.yaml."""
    return MirroredFile(Path(settings.PLATFORM_SETTINGS_FILE), MAX_BYTES)


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


def settings_context() -> SettingsContext:
    """Return what the meaning of a settings document depends on in this process."""
    return SettingsContext(
        variables=config_variables(), keys=encryption_keys(), in_cluster=in_cluster()
    )


def encryption_keys() -> tuple[str, ...]:
    """Return the keys of secrets at rest: the first encrypts, and every one decrypts."""
    return tuple(settings.ENCRYPTION_KEYS)


def secret_variable(ref: str) -> str | None:
    """Return `PARTITA_SECRET_<REF IN UPPER CASE>`; no other variable can be read."""
    name = re.sub(r"[^A-Z0-9]", "_", ref.upper())
    return os.environ.get(f"{_READABLE}{name}")  # noqa: TID251 - the one source of these


def secret_variable_count() -> int:
    return sum(name.startswith(_READABLE) for name in os.environ)  # noqa: TID251 - as above


def vault_token() -> str:
    """Return the token, read each time because its file may be renewed; raise OSError."""
    if path := settings.VAULT_TOKEN_FILE:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    return str(settings.VAULT_TOKEN)


def vault_address() -> str:
    """Return the only address to which the credentials for Vault may go, "" for any."""
    return str(settings.VAULT_ADDR)


def secret_files_folder() -> Path | None:
    """Return the folder of the secrets in files; None when it is not set."""
    return Path(settings.SECRET_FILES_DIR) if settings.SECRET_FILES_DIR else None
