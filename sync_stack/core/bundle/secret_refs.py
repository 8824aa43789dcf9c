"""Where secrets come from: references in the bundle, and the managers that some of them name."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where in the bundle something stands; `path` as in `bundle.platforms[0].github.secret`."""

    path: str = "bundle"
    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    """Exactly one of `value`, `env`, `file`, or `path` with `key` is set.

    `manager`: the name of the secret manager that holds `path`#`key`. Never log `value`.
    `masked` is False for a user name or the path of a key: they are written like secrets.
    """

    value: str = field(default="", repr=False)
    env: str = ""
    file: str = ""
    path: str = ""
    key: str = ""
    manager: str = ""
    masked: bool = True
    place: Location = field(default=Location(), compare=False, repr=False)

    @property
    def is_managed(self) -> bool:
        return bool(self.path)

    def __str__(self) -> str:
        """What it refers to; never the secret itself."""
        if self.path:
            return f"{self.manager}:{self.path}#{self.key}"
        if self.env or self.file:
            return f"env {self.env}" if self.env else f"file {self.file}"
        return "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAuth:
    token: SecretRef


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRoleAuth:
    role_id: SecretRef
    secret_id: SecretRef
    mount_path: str = "approle"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesAuth:
    role: str
    jwt_path: str = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    mount_path: str = "kubernetes"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserpassAuth:
    username: SecretRef
    password: SecretRef
    mount_path: str = "userpass"


VaultAuth = TokenAuth | AppRoleAuth | KubernetesAuth | UserpassAuth


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretManager:
    """A Vault server and the way to sign in there."""

    name: str
    endpoint: str
    auth: VaultAuth
    kind: str = "vault"
    tag: str = ""
    namespace: str = ""
    mount_point: str = "secret"
    path_prefix: str = ""
    kv_version: int = 2
    verify_ssl: bool = True
    ssl_ca: str = ""
    ssl_cert: str = ""
    ssl_key: str = ""
    timeout_s: float = 10.0
    max_retries: int = 2
    place: Location = field(default=Location(), compare=False, repr=False)
