"""Secret managers of the bundle: Vault servers and the ways to sign in there."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Final

from sync_stack.core.bundle.diagnostics import LocatedValue, Location
from sync_stack.core.bundle.fields import (
    ParsedFields,
    group,
    input_only,
    option,
    read_fields,
    table_of,
)
from sync_stack.core.bundle.secrets import SECRET, USER_NAME, SecretRef, is_safe_path
from sync_stack.core.bundle.urls import http_url, is_inner, parse_url
from sync_stack.core.bundle.values import (
    FLAG,
    NAME,
    OPTIONAL_TEXT,
    TAG,
    TEXT,
    choice,
    duration,
    parsed_text,
    text,
    whole,
)
from sync_stack.core.templates import NAMES, render

_MOUNT: Final = text("a mount path", r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_ENVIRONMENT: Final = "ENVIRONMENT"  # `secret_id` names an environment variable
_SECRET_ID_TYPE: Final = choice(("PLAIN", _ENVIRONMENT), "SECRET_ID_TYPE_", numbers=range(1, 3))


def path_prefix(written: str) -> str:
    """Return a prefix, perhaps with the names of a template; raise ValueError."""
    prefix = written.strip("/")
    if prefix and not is_safe_path(render(prefix, dict.fromkeys(NAMES, "x"))):
        raise ValueError(f'"{written[:60]}" is not a path in a secret manager')
    return prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAuth:
    token: SecretRef = option(SECRET)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRoleAuth:
    role_id: SecretRef = option(SECRET)
    secret_id: SecretRef = option(SECRET)
    secret_id_type: ClassVar = input_only(
        _SECRET_ID_TYPE, "ENVIRONMENT: secret_id names an environment variable", shown="PLAIN"
    )
    mount_path: str = option(_MOUNT, "approle")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesAuth:
    role: str = option(NAME)
    jwt_path: str = option(TEXT, "/var/run/secrets/kubernetes.io/serviceaccount/token")
    mount_path: str = option(_MOUNT, "kubernetes")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserpassAuth:
    username: SecretRef = option(USER_NAME)
    password: SecretRef = option(SECRET)
    mount_path: str = option(_MOUNT, "userpass")


VaultAuth = TokenAuth | AppRoleAuth | KubernetesAuth | UserpassAuth
_TOKEN: Final = table_of("vault token_auth", TokenAuth)
_APP_ROLE: Final = table_of("vault app_role_auth", AppRoleAuth)
_KUBERNETES: Final = table_of("vault kubernetes_auth", KubernetesAuth)
_USERPASS: Final = table_of("vault userpass_auth", UserpassAuth)
_METHODS: Final = ("token_auth", "app_role_auth", "kubernetes_auth", "userpass_auth")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretManager:
    """A Vault server and the way to sign in there."""

    name: str
    auth: VaultAuth
    kind: str = "vault"
    tag: str = option(TAG, "", "Suffix of the name: `vault-tag`")
    endpoint: str = option(
        parsed_text("URL", http_url), description="Address of the server", aliases="vault_addr"
    )
    namespace: str = option(OPTIONAL_TEXT, "", "Of Vault Enterprise")
    mount_point: str = option(_MOUNT, "secret", "Where the key-value engine is mounted")
    path_prefix: str = option(
        parsed_text("path", path_prefix),
        "",
        "Put before every path; for secrets of files it may hold the names of "
        "`destination_template`",
    )
    kv_version: int = option(whole(1, 2), 2, "Of the key-value engine")
    token_auth: ClassVar = input_only(group(_TOKEN), "Exactly one of the four: `token`*")
    app_role_auth: ClassVar = input_only(
        group(_APP_ROLE),
        "`role_id`*, `secret_id`*, `secret_id_type` PLAIN 1 (default) or ENVIRONMENT 2 "
        '(`secret_id` names a variable), `mount_path` "approle"',
        aliases="approle_auth",
    )
    kubernetes_auth: ClassVar = input_only(
        group(_KUBERNETES), '`role`*, `jwt_path`, `mount_path` "kubernetes"'
    )
    userpass_auth: ClassVar = input_only(
        group(_USERPASS), '`username`*, `password`*, `mount_path` "userpass"'
    )
    verify_ssl: bool = option(FLAG, True, "false warns `risky_setting`")
    ssl_ca: str = option(TEXT, "", "Path or PEM")
    ssl_cert: str = option(TEXT, "", "Path of the client certificate")
    ssl_key: str = option(TEXT, "", "Path of its key")
    timeout_s: float = option(duration(0.1, 10), 10.0, "Of one request", name="timeout")
    max_retries: int = option(whole(0, 10), 2, "Of one request")
    location: Location = field(default=Location(), compare=False, repr=False)


VAULT: Final = table_of("vault", SecretManager)


def read_manager(located: LocatedValue, name: str) -> SecretManager | None:
    """Return a Vault server under this name; None after an error."""
    parsed_fields = read_fields(VAULT, located)
    auth = _auth(parsed_fields)
    parsed_fields.warn_unverified("verify_ssl", risky=False)
    endpoint = parsed_fields.get("endpoint", "")
    if endpoint.startswith("http:") and not is_inner(parse_url(endpoint, ("http",)).hostname or ""):
        message = "secrets travel to a public address without TLS"
        parsed_fields.at("endpoint").warn("risky_setting", message)
    parsed_fields.together("ssl_cert", "ssl_key")
    if auth is None or not parsed_fields.complete:
        return None
    manager: SecretManager = parsed_fields.build(name=name, auth=auth, location=located.location)
    return manager


def _auth(manager: ParsedFields) -> VaultAuth | None:
    written = [name for name in _METHODS if manager.has(name)]
    if not written:
        message = f"one way to sign in is required: {' or '.join(_METHODS)}"
        manager.located.error("missing_field", message)
        return None
    if len(written) > 1:
        message = f"{' and '.join(written)}: exactly one way to sign in"
        manager.at(written[1]).error("mutually_exclusive", message)
    method: ParsedFields | None = manager.get(written[0])
    if method is None:
        return None
    auth: VaultAuth = method.build()
    for each in fields(auth):
        value = getattr(auth, each.name)
        if isinstance(value, SecretRef) and value.is_managed:
            message = "a secret manager's own credentials cannot come from a secret manager"
            method.at(each.name).error("bad_secret", message)
            return None
    by_name = method.get("secret_id_type") == _ENVIRONMENT
    if isinstance(auth, AppRoleAuth) and by_name and auth.secret_id.value:
        named = SecretRef(env=auth.secret_id.value, location=auth.secret_id.location)
        return replace(auth, secret_id=named)
    return auth
