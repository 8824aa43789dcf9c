"""Secrets of a Vault, by its key-value engines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from apps.platform_settings import conf
from apps.platform_settings.domain.addresses import origin_of
from apps.platform_settings.domain.secrets import (
    VAULT_SCHEME,
    ManagerFailed,
    ManagerUnavailable,
    SecretManagers,
    field_of,
    secret_path,
    secret_providers,
)
from apps.platform_settings.services.manager_cache import manager_cache
from kernel.vault import Vault, VaultError, VaultUnavailable, check_access, read_secret

T = TypeVar("T")

_NAME: Final = "vault"


class HashicorpVault:
    names = (_NAME,)
    title = "Vault"

    def takes(self, provider: str, ref: str) -> bool:
        return _NAME in provider or ref.startswith(VAULT_SCHEME)

    def value(self, managers: SecretManagers, ref: str) -> str:
        vault, located = _vault(managers), secret_path(ref, prefix=managers.prefix)
        if "/" not in located.path:
            raise ManagerFailed(
                "the path must name the mount of the engine and a secret, as in secret/name"
            )
        fetch = partial(_ask, partial(read_secret, vault, located.path))
        fields: Mapping[str, Any] = manager_cache.read(vault, located.path, fetch)
        return field_of(fields, located.field)

    def check(self, managers: SecretManagers) -> str:
        vault = _vault(managers)
        _ask(partial(check_access, vault))
        return f"{managers.vault_address} accepts the {'token' if vault.token else 'role'}"


def _vault(managers: SecretManagers) -> Vault:
    if not managers.vault_address:
        raise ManagerFailed("secrets.vaultAddress is not set in the platform settings")
    bound = conf.vault_address()
    if bound and origin_of(bound) != origin_of(managers.vault_address):
        raise ManagerFailed("secrets.vaultAddress is another address than VAULT_ADDR")
    try:
        token = conf.vault_token()
    except OSError as error:
        raise ManagerFailed(f"VAULT_TOKEN_FILE cannot be read: {error.strerror}") from None
    return Vault(
        address=managers.vault_address,
        namespace=managers.vault_namespace,
        token=token,
        role=managers.vault_role,
    )


def _ask(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    try:
        return asyncio.run(call())
    except VaultUnavailable as error:
        raise ManagerUnavailable(str(error)) from None
    except VaultError as error:
        raise ManagerFailed(str(error)) from None


secret_providers.register(_NAME)(HashicorpVault())
