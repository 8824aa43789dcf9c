"""Secrets that profiles name: read when a run boots (as a check) and for each claim, never stored.

(reference: control-plane 10)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from apps.platform_settings.api import SecretUnreadable, global_overrides, secret_value
from kernel.errors import PlatformError


class SecretUnresolved(PlatformError):
    """The message names key, provider and reference, never a value."""

    def __init__(self, reference: Mapping[str, str], why: str) -> None:
        key, provider, ref = (reference[name] for name in ("key", "provider", "ref"))
        super().__init__(f"secret {key} of provider {provider!r}, {ref!r}: {why}")


def resolve_secrets(references: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return variable → value for references {key, provider, ref}; raise SecretUnresolved."""
    return {reference["key"]: _resolve(reference) for reference in references}


def overriding(*, masked: bool = False) -> dict[str, str]:
    """Return the variables that the platform gives every step; `masked` hides secrets as `***`."""
    return {
        each.key: "***" if masked and each.sensitive else each.value for each in global_overrides()
    }


def secret_overrides(env: Mapping[str, str]) -> set[str]:
    """Return the names in `env` with the value of a sensitive override."""
    return {
        each.key
        for each in global_overrides()
        if each.sensitive and env.get(each.key) == each.value
    }


def _resolve(reference: Mapping[str, str]) -> str:
    try:
        return secret_value(reference["provider"], reference["ref"])
    except SecretUnreadable as error:
        raise SecretUnresolved(reference, str(error)) from None
