"""Secrets that profiles name: read when a run boots (a check) and for each claim, never stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from apps.executions import conf
from apps.executions.domain.secret_refs import NoSuchValue, Source, source_of
from apps.executions.services.secret_managers import ManagerFailed, aws_value, vault_value
from apps.platform_settings.api import SecretManagers, global_overrides, secret_managers
from kernel.errors import PlatformError
from kernel.redaction import known_secrets


class SecretUnresolved(PlatformError):
    """Names key, provider and reference, never a value."""

    def __init__(self, reference: Mapping[str, str], why: str) -> None:
        key, provider, ref = (reference[name] for name in ("key", "provider", "ref"))
        super().__init__(f"secret {key} of provider {provider!r}, {ref!r}: {why}")


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
    """The value, which the redactor knows before anybody else sees it."""
    source = source_of(reference["provider"], reference["ref"])
    if source is None:
        raise SecretUnresolved(reference, "there is no such provider")
    try:
        value = _READERS[source](secret_managers(), reference["ref"])
    except (ManagerFailed, NoSuchValue) as error:
        raise SecretUnresolved(reference, str(error)) from None
    known_secrets.add(value)
    return value


def _own_value(_managers: SecretManagers, ref: str) -> str:
    value = overriding().get(ref) or conf.secret_variable(ref)
    if value is None:
        raise NoSuchValue("there is no override and no PARTITA_SECRET_ variable of that name")
    return value


_READERS: Final[dict[Source, Callable[[SecretManagers, str], str]]] = {
    "local": _own_value,
    "vault": vault_value,
    "aws": aws_value,
}
