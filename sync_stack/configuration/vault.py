"""A Vault client based on hvac: sign-in, both key-value engines, and renewal of the token.

All settings come from the bundle; the environment (VAULT_TOKEN, ~/.vault-token, proxies, .netrc) is
not used. Redirects are not followed, so that a token is sent to its own server only.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import hvac
import requests
from hvac.exceptions import Forbidden, InvalidPath, VaultError
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from kernel.background import Delayed
from sync_stack.configuration.secrets import (
    SecretAbsent,
    SecretResolver,
    SecretUnavailable,
    UnreadableSecret,
)
from sync_stack.core.bundle.secret_managers import (
    AppRoleAuth,
    KubernetesAuth,
    SecretManager,
    TokenAuth,
    UserpassAuth,
)

log: Final = logging.getLogger("partita.sync.vault")
_RETRIED: Final = (429, 500, 502, 503, 504)
_LEAST_RENEWAL_S: Final = 1.0
_AFTER_FAILURE_S: Final = 60.0
_PEM: Final = "-----BEGIN"


class VaultClient:
    """One server and one sign-in. Safe for threads: calls are serialized."""

    def __init__(self, manager: SecretManager, resolver: SecretResolver) -> None:
        self._manager = manager
        self._resolver = resolver
        self._ca_file: tempfile._TemporaryFileWrapper[str] | None = None
        self._client = hvac.Client(
            url=manager.endpoint,
            token="",
            cert=(),
            verify=self._verify(),
            timeout=manager.timeout_s,
            session=self._session(),
            namespace=manager.namespace or None,
            allow_redirects=False,
        )
        self._calls = threading.RLock()
        self._signed_in = False
        self._renewable = False
        self._renewal: Delayed | None = None

    def fetch(self, path: str, key: str) -> str:
        """Return the text at a key of a secret. Raises SecretUnavailable."""
        with self._calls:
            try:
                values = self._read_signed_in(path)
            except (VaultError, requests.RequestException) as error:
                raise self._unavailable(path, error) from None
        return self._text(values, path, key)

    def close(self) -> None:
        with self._calls:
            if self._renewal:
                self._renewal.end()
            self._client.adapter.close()
            if self._ca_file:
                self._ca_file.close()

    def _read_signed_in(self, path: str) -> Mapping[str, Any]:
        """Read, after a sign-in where needed, and once more when the token is refused."""
        if not self._signed_in:
            self._sign_in()
            return self._read(path)
        try:
            return self._read(path)
        except Forbidden:
            self._sign_in()
            return self._read(path)

    def _read(self, path: str) -> Mapping[str, Any]:
        mount = self._manager.mount_point
        if self._manager.kv_version == 1:
            answer = self._client.secrets.kv.v1.read_secret(path=path, mount_point=mount)
            return _map(_map(answer).get("data"))
        answer = self._client.secrets.kv.v2.read_secret_version(
            path=path, mount_point=mount, raise_on_deleted_version=True
        )
        return _map(_map(_map(answer).get("data")).get("data"))

    def _text(self, values: Mapping[str, Any], path: str, key: str) -> str:
        value = values.get(key)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        wrong = "is not text" if value else "does not exist"
        raise SecretAbsent(f"{self._manager.name}: {path}#{key} {wrong}")

    def _sign_in(self) -> None:
        """Raises VaultError, RequestException, SecretUnavailable."""
        self._signed_in = False
        try:
            answer = _map(self._login())
        except UnreadableSecret as error:
            raise SecretUnavailable(f"{self._manager.name}: {error}") from None
        self._signed_in = True
        self._renew_after(_map(answer.get("auth") or answer.get("data")))

    def _login(self) -> Any:
        """Sign in the client; return the response with the lifetime of the token."""
        auth, secret = self._manager.auth, self._resolver.resolve
        self._client.token = ""
        match auth:
            case TokenAuth():
                self._client.token = secret(auth.token)
                return self._client.auth.token.lookup_self()
            case AppRoleAuth():
                return self._client.auth.approle.login(
                    role_id=secret(auth.role_id),
                    secret_id=secret(auth.secret_id),
                    mount_point=auth.mount_path,
                )
            case KubernetesAuth():
                return self._client.auth.kubernetes.login(
                    role=auth.role, jwt=_service_token(auth), mount_point=auth.mount_path
                )
            case UserpassAuth():
                return self._client.auth.userpass.login(
                    username=secret(auth.username),
                    password=secret(auth.password),
                    mount_point=auth.mount_path,
                )

    def _renew_after(self, token: Mapping[str, Any]) -> None:
        """Schedule the renewal at half the lifetime of a token, if it has one."""
        if self._renewal:
            self._renewal.end()
        self._renewable = token.get("renewable") is True
        life = token.get("lease_duration") or token.get("ttl") or 0
        if isinstance(life, int) and life > 0 and (self._renewable or not self._is_static):
            self._plan(max(life / 2, _LEAST_RENEWAL_S))

    @property
    def _is_static(self) -> bool:
        """Return whether the sign-in needs a configured token, which cannot be replaced."""
        return isinstance(self._manager.auth, TokenAuth)

    def _plan(self, seconds: float) -> None:
        self._renewal = Delayed("vault-renewal", seconds, self._renew)
        self._renewal.start()

    def _renew(self) -> None:
        """Renew the token; one that is not renewable is replaced at the next fetch."""
        with self._calls:
            if not self._renewable:
                self._signed_in = False
                return
            try:
                answer = _map(self._client.auth.token.renew_self())
                self._renew_after(_map(answer.get("auth")))
            except (VaultError, requests.RequestException, SecretUnavailable) as error:
                self._signed_in = False
                said = self._unavailable("token", error)
                log.warning("%s", said, extra={"event": "vault_renewal_failed"})
                if self._is_static:
                    self._plan(_AFTER_FAILURE_S)

    def _unavailable(self, path: str, error: Exception) -> SecretUnavailable:
        """Return the error with the kind of failure, without texts of the server."""
        words = {InvalidPath: "does not exist", Forbidden: "access is refused"}
        kind = words.get(type(error), f"the server failed ({type(error).__name__})")
        if isinstance(error, requests.RequestException):
            kind = f"the server cannot be reached ({type(error).__name__})"
        found = SecretAbsent if isinstance(error, InvalidPath) else SecretUnavailable
        return found(f"{self._manager.name}: {path}: {kind}")

    def _session(self) -> requests.Session:
        retry = Retry(
            total=self._manager.max_retries,
            backoff_factor=0.1,
            status_forcelist=_RETRIED,
            allowed_methods=None,
            raise_on_status=False,
            redirect=0,
        )
        session = requests.Session()
        session.trust_env = False
        session.verify = self._verify()
        if self._manager.ssl_cert:
            session.cert = (self._manager.ssl_cert, self._manager.ssl_key)
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(max_retries=retry))
        return session

    def _verify(self) -> bool | str:
        """Return the `verify` of requests: a bool, or the path of the authorities."""
        if not self._manager.verify_ssl or not self._manager.ssl_ca:
            return self._manager.verify_ssl
        if _PEM not in self._manager.ssl_ca:
            return self._manager.ssl_ca
        if self._ca_file is None:
            self._ca_file = tempfile.NamedTemporaryFile("w", suffix=".pem")  # noqa: SIM115
            self._ca_file.write(self._manager.ssl_ca)
            self._ca_file.flush()
        return self._ca_file.name


def _map(value: Any) -> Mapping[str, Any]:
    """Raises SecretUnavailable where an answer is not what the API documents."""
    if isinstance(value, Mapping):
        return value
    raise SecretUnavailable("the response is not that of a Vault server")


def _service_token(auth: KubernetesAuth) -> str:
    try:
        return Path(auth.jwt_path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        raise UnreadableSecret(f"{auth.jwt_path} cannot be read") from None
