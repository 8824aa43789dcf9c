"""Reading the key-value engines of a Vault by its HTTP API, at checked addresses only.

For who reads a secret now and then: it signs in each time where it has no token, follows no
redirect, uses no setting of the environment, and keeps nothing.

    VaultError              the message names the kind of failure, nothing that the server said
    └── VaultUnavailable    no answer, or none that a working server gives: do not ask soon again
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from kernel.addresses import LOCAL_TOO, AddressError, Resolver, read_base_url, resolve

if TYPE_CHECKING:
    import httpx

WITHIN_S: Final = 5.0
SERVICE_TOKEN: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_MOST_BYTES: Final = 2**20
_OF_VAULT_ITSELF: Final = frozenset({"auth", "cubbyhole", "identity", "sys"})


class VaultError(Exception):
    """A secret is not available."""


class VaultUnavailable(VaultError):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Vault:
    """A server and a way in: the token, or without one the Kubernetes sign-in with `role`."""

    address: str
    namespace: str = ""
    token: str = field(default="", repr=False)
    role: str = ""
    service_token: Path = SERVICE_TOKEN


async def read_secret(
    vault: Vault, path: str, *, resolver: Resolver = resolve, within_s: float = WITHIN_S
) -> Mapping[str, Any]:
    """The fields of a secret: of version 2 of the engine, else of version 1.

    The first part of `path` is where the engine is mounted. Raises VaultError.
    """
    mount = path.partition("/")[0]
    if mount in _OF_VAULT_ITSELF:  # also answers, with this process's token for one
        raise VaultError(f"{mount} is not a mount of a key-value engine")
    async with _open_session(vault, resolver, within_s) as session:
        return await session.fields(path)


async def check_access(
    vault: Vault, *, resolver: Resolver = resolve, within_s: float = WITHIN_S
) -> None:
    """Sign in and have the server look the token up. Raises VaultError."""
    async with _open_session(vault, resolver, within_s) as session:
        await session.look_up_token()


@asynccontextmanager
async def _open_session(
    vault: Vault, resolver: Resolver, within_s: float
) -> AsyncIterator[_VaultSession]:
    import httpx  # slow to import: only processes that read secrets pay for it

    from kernel.pinned_http import pinned_client

    try:
        base = read_base_url(vault.address, LOCAL_TOO)
        async with (
            asyncio.timeout(within_s),
            pinned_client(LOCAL_TOO, resolver=resolver, timeout=None) as client,
        ):
            yield _VaultSession(client, base, vault)
    except AddressError as error:
        raise VaultError(f"the address cannot be used: {error}") from None
    except TimeoutError:
        raise VaultUnavailable(f"no answer within {within_s:g} s") from None
    except httpx.HTTPError as error:
        raise VaultUnavailable(f"the server cannot be reached ({type(error).__name__})") from None


class _VaultSession:
    def __init__(self, client: httpx.AsyncClient, base: str, vault: Vault) -> None:
        self._client = client
        self._base = base
        self._vault = vault
        self._headers = {"X-Vault-Request": "true"}
        if vault.namespace:
            self._headers["X-Vault-Namespace"] = vault.namespace

    async def fields(self, path: str) -> Mapping[str, Any]:
        self._headers["X-Vault-Token"] = self._vault.token or await self._sign_in()
        mount, _, rest = path.partition("/")
        second, wrapped = await self._ask("GET", quote(f"{mount}/data/{rest}"))
        inner = _map(wrapped.get("data"))
        if second == HTTPStatus.OK and "metadata" in inner:
            return _map(inner.get("data"))
        first, plain = await self._ask("GET", quote(f"{mount}/{rest}"))
        if first == HTTPStatus.OK:
            return _map(plain.get("data"))
        # what is refused under one version may be missing under the other
        raise VaultError(_refusal(first, second))

    async def look_up_token(self) -> None:
        self._headers["X-Vault-Token"] = self._vault.token or await self._sign_in()
        status, _answer = await self._ask("GET", "auth/token/lookup-self")
        if status != HTTPStatus.OK:
            raise VaultError(_refusal(status))

    async def _sign_in(self) -> str:
        if not self._vault.role:
            raise VaultError("neither a token nor a role to sign in with is configured")
        try:
            token = self._vault.service_token.read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            raise VaultError(f"{self._vault.service_token} cannot be read") from None
        body = {"role": self._vault.role, "jwt": token}
        status, answer = await self._ask("POST", "auth/kubernetes/login", body)
        client_token = _map(answer.get("auth")).get("client_token")
        if status != HTTPStatus.OK or not isinstance(client_token, str):
            raise VaultError(f"the sign-in with role {self._vault.role} is refused ({status})")
        return client_token

    async def _ask(
        self, method: str, path: str, body: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, Any]]:
        """Status and document; raises VaultUnavailable for what no working server answers."""
        request = self._client.stream(
            method, f"{self._base}/v1/{path}", headers=self._headers, json=body
        )
        async with request as answer:
            status = answer.status_code
            if answer.is_redirect:
                raise VaultError("the server responded with a redirect, which is not followed")
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
                raise VaultUnavailable(f"the server failed ({status})")
            content = await _read(answer)
        try:
            return status, _map(json.loads(content or b"{}"))
        except (ValueError, RecursionError):
            raise VaultUnavailable("the response is not that of a Vault server") from None


async def _read(answer: httpx.Response) -> bytes:
    content = bytearray()
    async for part in answer.aiter_bytes():
        content += part
        if len(content) > _MOST_BYTES:
            raise VaultError(f"the response is larger than {_MOST_BYTES} bytes")
    return bytes(content)


def _refusal(*statuses: int) -> str:
    if HTTPStatus.FORBIDDEN in statuses:
        return "access denied"
    if HTTPStatus.NOT_FOUND in statuses:
        return "the secret does not exist"
    return f"the server refuses ({statuses[0]})"


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
