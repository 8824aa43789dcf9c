"""The environment of steps in the platform settings: overrides and secret managers."""

from __future__ import annotations

from dataclasses import dataclass, field


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
