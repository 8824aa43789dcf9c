"""Secrets by reference: from whichever provider the reference names."""

from __future__ import annotations

from apps.platform_settings.domain.secrets import (
    ManagerFailed,
    NoSuchValue,
    provider_of,
    secret_providers,
)
from apps.platform_settings.services.effective import secret_managers
from apps.platform_settings.services.manager_cache import manager_cache
from kernel.redaction import known_secrets
from kernel.registry import UnknownPlugin


class SecretUnreadable(Exception):
    """A secret is not available; the message says why, and holds no value."""


def secret_value(provider: str, ref: str) -> str:
    """Return a secret after it was registered with the redactor; raise SecretUnreadable."""
    source = provider_of(provider, ref)
    if source is None:
        raise SecretUnreadable("unknown provider")
    try:
        value = source.value(secret_managers(), ref)
    except (ManagerFailed, NoSuchValue) as error:
        raise SecretUnreadable(str(error)) from None
    known_secrets.add(value)
    return value


def check_secret_provider(name: str) -> str:
    """Ask a provider now and return in one sentence what it said; raise SecretUnreadable.

    `name` is one of `secret_provider_titles()`.
    """
    try:
        source = secret_providers[name]
        return str(manager_cache.call_with_limit(lambda: source.check(secret_managers())))
    except (ManagerFailed, UnknownPlugin) as error:
        raise SecretUnreadable(str(error)) from None


def secret_provider_titles() -> dict[str, str]:
    """Return the titles of the providers by their names."""
    return {name: secret_providers[name].title for name in secret_providers}
