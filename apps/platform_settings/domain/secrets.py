"""Secrets of steps: overrides, references, the port of their providers, the value of a field.

(reference: control-plane 10)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kernel.registry import Registry
from readers.diagnostics import nearest_advice

VAULT_SCHEME: Final = "vault://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """A variable of every step, which may be a secret. It wins over the profile, not the node."""

    key: str
    value: str = field(repr=False)
    sensitive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretManagers:
    """The stores of the secrets that profiles name; a setting that is not set is empty."""

    vault_address: str = ""
    vault_namespace: str = ""
    vault_role: str = ""  # for its Kubernetes auth method
    aws_region: str = ""
    prefix: str = ""  # of paths in Vault


class ManagerFailed(Exception):
    """The read failed; the message holds no value and nothing that the manager responded."""


class ManagerUnavailable(ManagerFailed):
    """The manager did not respond; to ask it again at once would take as long."""


class NoSuchValue(Exception):
    """The secret has no value of that name; the message repeats no value."""


@dataclass(frozen=True, slots=True)
class SecretPath:
    """The path of a secret with the prefix, and the name of its field, or empty."""

    path: str
    field: str = ""


class SecretProvider(Protocol):
    """A store of secrets. `names` are what a secretRef may call it."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def title(self) -> str: ...

    def takes(self, provider: str, ref: str) -> bool:
        """Return whether a reference that names no provider exactly is for this one.

        `provider` is in lower case, with hyphens for spaces.
        """
        ...

    def value(self, managers: SecretManagers, ref: str) -> str:
        """Return the secret; raise ManagerFailed or NoSuchValue."""
        ...

    def check(self, managers: SecretManagers) -> str:
        """Return in one sentence what was reached; raise ManagerFailed."""
        ...


secret_providers: Final[Registry[SecretProvider]] = Registry(
    "secret provider", package="apps.platform_settings.secret_providers"
)


def provider_of(provider: str, ref: str) -> SecretProvider | None:
    """Return the provider of a reference, or None when there is none of that name."""
    known = [secret_providers[name] for name in secret_providers]
    folded = "-".join(re.split(r"[\s_-]+", provider.strip().lower()))
    for each in known:
        if folded in each.names:
            return each
    return next((each for each in known if each.takes(folded, ref)), None)


def known_secret_providers() -> tuple[str, ...]:
    """Return the names that a secretRef may have for `provider`."""
    return tuple(name for each in secret_providers for name in secret_providers[each].names)


def reference_problem(provider: str, ref: str) -> str:
    """Return why a reference cannot work, whatever the secret managers have; "" if it can."""
    if provider_of(provider, ref) is None:
        advice = nearest_advice(provider, known_secret_providers())
        return f"unknown secret provider {provider[:80]!r}; {advice}"
    try:
        secret_path(ref)
    except NoSuchValue as error:
        return str(error)
    return ""


def secret_path(ref: str, *, prefix: str = "") -> SecretPath:
    """Return the path; raise NoSuchValue for one that could lead out of the prefix."""
    path, _, field = ref.removeprefix(VAULT_SCHEME).partition("#")
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise NoSuchValue("the path contains an empty part, . or ..")
    return SecretPath("/".join(filter(None, (prefix.strip("/"), path))), field)


def field_of(fields: Mapping[str, Any], name: str) -> str:
    """Return the named field, else the only one, else `value`; raise NoSuchValue."""
    if not name:
        name = next(iter(fields)) if len(fields) == 1 else "value"
    if name not in fields:
        raise NoSuchValue(f"the secret has no field {name!r}")
    return _text(fields[name], name)


def field_of_json(text: str, name: str) -> str:
    """Return the whole text, or with a name this key of the JSON object; raise NoSuchValue."""
    if not name:
        return text
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise NoSuchValue("the secret is not a JSON object")
    return field_of(fields, name)


def _text(value: Any, name: str) -> str:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise NoSuchValue(f"the field {name!r} is empty or not text")
