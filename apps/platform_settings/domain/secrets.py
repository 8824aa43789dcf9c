"""The environment of steps in the platform settings: overrides and secret managers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from apps.platform_settings.domain.addresses import broken_address_rule, without_user
from apps.platform_settings.domain.fields import Fields
from apps.platform_settings.domain.wire import OVERRIDE, SECRETS, names
from kernel.ids import is_env_name
from readers.yaml import Node

_PROVIDERS: Final = ("none", "vault", "aws-secrets-manager")
_KEYS: Final = names(SECRETS, "globalOverrides")
_OVERRIDE_KEYS: Final = names(OVERRIDE)


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


def read_managers(fields: Fields, root: Node) -> SecretManagers:
    """Read `secrets`, whose type and keys are checked with the overrides."""
    section = root.get("secrets")
    if section is None or section.pairs is None:
        return SecretManagers()

    def text(key: str) -> str:
        return fields.text(section, "/secrets", key)

    vault_address = text("vaultAddress")
    if vault_address and (rule := broken_address_rule(vault_address)):
        fields.refuse_value(section, "/secrets", "vaultAddress", rule)
    return SecretManagers(
        vault_address=without_user(vault_address),
        vault_namespace=text("vaultNamespace"),
        vault_role=text("vaultRole"),
        aws_region=text("awsRegion"),
        prefix=text("secretPrefix"),
    )


def read_overrides(fields: Fields, root: Node) -> tuple[Override, ...]:
    """Read `secrets.globalOverrides`; errors go to `fields`."""
    section = root.get("secrets")
    if section is None or section.is_null or not fields.known_keys(section, "/secrets", _KEYS):
        return ()
    if (provider := fields.text(section, "/secrets", "provider") or "none") not in _PROVIDERS:
        detail = f"must be one of {', '.join(_PROVIDERS)}, not {provider}"
        fields.refuse_value(section, "/secrets", "provider", detail)
    return tuple(_overrides(fields, section))


def _overrides(fields: Fields, section: Node) -> Iterator[Override]:
    seen: set[str] = set()
    for node, pointer in fields.entries(section, "/secrets", "globalOverrides"):
        if not fields.known_keys(node, pointer, _OVERRIDE_KEYS):
            continue
        key = fields.require_text(node, pointer, "key")
        if key and not is_env_name(key):
            detail = "key must be the name of an environment variable"
            fields.refuse(node, f"{pointer}/key", "invalid_value", detail)
        if key in seen:
            fields.refuse(node, f"{pointer}/key", "duplicate", "key is used twice")
        seen.add(key)
        fields.text(node, pointer, "description")
        sensitive = fields.flag(node, pointer, "sensitive", default=False)
        read = fields.secret if sensitive else fields.text
        yield Override(key=key, value=read(node, pointer, "value"), sensitive=sensitive)
