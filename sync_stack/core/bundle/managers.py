"""Secret managers of the bundle: `vault` and its ways to sign in."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

from sync_stack.core.bundle.diagnostics import Diagnostics, LocatedValue
from sync_stack.core.bundle.fields import Field, Group, ParsedFields, Table, read_table
from sync_stack.core.bundle.secret_refs import (
    AppRoleAuth,
    KubernetesAuth,
    SecretManager,
    SecretRef,
    TokenAuth,
    UserpassAuth,
    VaultAuth,
)
from sync_stack.core.bundle.secret_values import SECRET, USER_NAME, is_safe_path
from sync_stack.core.bundle.urls import is_inner, parsed
from sync_stack.core.bundle.values import (
    NAME,
    OPTIONAL_TEXT,
    TAG,
    TEXT,
    Checked,
    Choice,
    Duration,
    Flag,
    Text,
    Whole,
)
from sync_stack.core.templates import NAMES, render


class SecretIdType(StrEnum):
    """Whether `secret_id` is the id itself or names an environment variable."""

    PLAIN = "PLAIN"
    ENVIRONMENT = "ENVIRONMENT"


def vault_url(text: str) -> str:
    """Raises BadUrl."""
    return parsed(text, ("https", "http")).geturl().rstrip("/")


def path_prefix(text: str) -> str:
    """Perhaps with the names of a template. Raises ValueError."""
    prefix = text.strip("/")
    if prefix and not is_safe_path(render(prefix, dict.fromkeys(NAMES, "x"))):
        raise ValueError(f'"{text[:60]}" is no path in a secret manager')
    return prefix


_MOUNT: Final = Text(words="a mount path", pattern=r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_TOKEN: Final = Table(
    title="vault token_auth",
    model=TokenAuth,
    fields=(Field(name="token", value=SECRET, required=True),),
)
_APP_ROLE: Final = Table(
    title="vault app_role_auth",
    model=AppRoleAuth,
    fields=(
        Field(name="role_id", value=SECRET, required=True),
        Field(name="secret_id", value=SECRET, required=True),
        Field(
            name="secret_id_type",
            value=Choice(
                SecretIdType,
                prefixes=("SECRET_ID_TYPE_",),
                numbers={1: SecretIdType.PLAIN, 2: SecretIdType.ENVIRONMENT},
            ),
            default="PLAIN",
            words="ENVIRONMENT: secret_id names an environment variable",
        ),
        Field(name="mount_path", value=_MOUNT),
    ),
)
_KUBERNETES: Final = Table(
    title="vault kubernetes_auth",
    model=KubernetesAuth,
    fields=(
        Field(name="role", value=NAME, required=True),
        Field(name="jwt_path", value=TEXT, words="File with the service account's token"),
        Field(name="mount_path", value=_MOUNT),
    ),
)
_USERPASS: Final = Table(
    title="vault userpass_auth",
    model=UserpassAuth,
    fields=(
        Field(name="username", value=USER_NAME, required=True),
        Field(name="password", value=SECRET, required=True),
        Field(name="mount_path", value=_MOUNT),
    ),
)
AUTH_TABLES: Final = (_TOKEN, _APP_ROLE, _KUBERNETES, _USERPASS)
VAULT: Final = Table(
    title="vault",
    model=SecretManager,
    fields=(
        Field(name="tag", value=TAG, words="Suffix of the name: `vault-tag`"),
        Field(
            name="endpoint",
            value=Checked("URL", vault_url),
            aliases=("vault_addr",),
            required=True,
            words="Address of the server",
        ),
        Field(name="namespace", value=OPTIONAL_TEXT, words="Of Vault Enterprise"),
        Field(name="mount_point", value=_MOUNT, words="Where the key-value engine is mounted"),
        Field(
            name="path_prefix",
            value=Checked("path", path_prefix),
            words="Put before every path; for secrets of files it may hold the names of "
            "`destination_template`",
        ),
        Field(name="kv_version", value=Whole(1, 2), words="Of the key-value engine"),
        Field(name="token_auth", value=Group(_TOKEN), words="Exactly one of the four: `token`*"),
        Field(
            name="app_role_auth",
            aliases=("approle_auth",),
            value=Group(_APP_ROLE),
            words="`role_id`*, `secret_id`*, `secret_id_type` PLAIN 1 (default) or ENVIRONMENT 2 "
            '(`secret_id` names a variable), `mount_path` "approle"',
        ),
        Field(
            name="kubernetes_auth",
            value=Group(_KUBERNETES),
            words='`role`*, `jwt_path`, `mount_path` "kubernetes"',
        ),
        Field(
            name="userpass_auth",
            value=Group(_USERPASS),
            words='`username`*, `password`*, `mount_path` "userpass"',
        ),
        Field(name="verify_ssl", value=Flag(), words="false warns `risky_setting`"),
        Field(name="ssl_ca", value=TEXT, words="Path or PEM"),
        Field(name="ssl_cert", value=TEXT, words="Path of the client certificate"),
        Field(name="ssl_key", value=TEXT, words="Path of its key"),
        Field(
            name="timeout",
            value=Duration(low=0.1, high=10),
            into="timeout_s",
            words="Of one request",
        ),
        Field(name="max_retries", value=Whole(0, 10), words="Of one request"),
    ),
)


def read_manager(spot: LocatedValue, name: str, findings: Diagnostics) -> SecretManager | None:
    """A vault entry; `name` is decided by the caller when it is not empty."""
    given = read_table(VAULT, spot, findings)
    auth = _auth(given, findings)
    _check_tls(given, findings)
    if auth is None or not given.complete:
        return None
    values = {key: value for key, value in given.values.items() if key not in _BUILDERS}
    tag = given.get("tag", "")
    own = f"vault-{tag}" if tag else "vault"
    return SecretManager(name=name or own, auth=auth, place=spot.place, **values)


def _check_tls(given: ParsedFields, findings: Diagnostics) -> None:
    if given.get("verify_ssl") is False:
        findings.warn(given.at("verify_ssl"), "risky_setting", "certificates are not verified")
    endpoint = given.get("endpoint", "")
    if endpoint.startswith("http:") and not is_inner(parsed(endpoint, ("http",)).hostname or ""):
        message = "secrets travel to a public address without TLS"
        findings.warn(given.at("endpoint"), "risky_setting", message)
    for one, other in (("ssl_cert", "ssl_key"), ("ssl_key", "ssl_cert")):
        if given.has(one) and not given.has(other):
            findings.error(given.at(other), "missing_field", f"{one} needs {other}")


def _auth(given: ParsedFields, findings: Diagnostics) -> VaultAuth | None:
    written = [name for name in _BUILDERS if given.has(name)]
    if not written:
        ways = " or ".join(_BUILDERS)
        findings.error(given.spot, "missing_field", f"one way to sign in is required: {ways}")
        return None
    if len(written) > 1:
        message = f"{' and '.join(written)}: exactly one way to sign in"
        findings.error(given.at(written[1]), "mutually_exclusive", message)
    method = given.get(written[0])
    if method is None:
        return None
    for name, value in method.values.items():
        if isinstance(value, SecretRef) and value.is_managed:
            message = "a secret manager's own credentials cannot come from a secret manager"
            findings.error(method.at(name), "bad_secret", message)
            return None
    return _BUILDERS[written[0]](method.values)


def _app_role(values: dict[str, Any]) -> VaultAuth:
    values = dict(values)
    if values.pop("secret_id_type", None) is SecretIdType.ENVIRONMENT:
        named = values["secret_id"]
        if named.value:
            values["secret_id"] = SecretRef(env=named.value, place=named.place)
    return AppRoleAuth(**values)


_BUILDERS: Final[dict[str, Callable[[dict[str, Any]], VaultAuth]]] = {
    "token_auth": lambda values: TokenAuth(**values),
    "app_role_auth": _app_role,
    "kubernetes_auth": lambda values: KubernetesAuth(**values),
    "userpass_auth": lambda values: UserpassAuth(**values),
}
