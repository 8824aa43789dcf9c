"""Secrets that profiles name: read when a run boots (a check) and for each claim, never stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from apps.executions import conf
from apps.platform_settings.api import global_overrides
from kernel.errors import PlatformError

_FROM_ENVIRONMENT: Final = ("local", "secrets")
_NOT_YET: Final = ("aws-secrets-manager",)


class SecretUnresolved(PlatformError):
    """Names key and provider, never a value."""

    def __init__(self, key: str, provider: str, why: str) -> None:
        super().__init__(f"secret {key} of provider {provider!r}: {why}")


def is_known_provider(provider: str) -> bool:
    return provider in (*_FROM_ENVIRONMENT, *_NOT_YET) or "vault" in provider


def resolve_secrets(references: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Env name → value of each reference {key, provider, ref}. Raises SecretUnresolved."""
    return {reference["key"]: _resolved(reference) for reference in references}


def overriding(*, masked: bool = False) -> dict[str, str]:
    """The platform's variables of every step; `masked`: `***` for those that are secrets."""
    return {
        each.key: "***" if masked and each.sensitive else each.value for each in global_overrides()
    }


def secret_overrides(env: Mapping[str, str]) -> set[str]:
    """The names in `env` whose value is that of a sensitive override."""
    return {
        each.key
        for each in global_overrides()
        if each.sensitive and env.get(each.key) == each.value
    }


def _resolved(reference: Mapping[str, str]) -> str:
    key, provider = reference["key"], reference["provider"]
    if provider not in _FROM_ENVIRONMENT:
        raise SecretUnresolved(key, provider, "this provider is not available yet")
    value = overriding().get(reference["ref"]) or conf.secret_variable(reference["ref"])
    if value is None:
        raise SecretUnresolved(key, provider, f"there is no secret {reference['ref']!r}")
    return value
