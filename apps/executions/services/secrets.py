"""Secrets that profiles name: read when a run boots (as a check) and for each claim, never stored.

Vault and AWS Secrets Manager have 5 s to respond. A response is kept for 10 s, for the steps that
start together. After no response the manager is not asked for 5 s, because claims wait here.
(reference: control-plane 10)
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, Final

from apps.executions import conf
from apps.executions.domain.secret_refs import (
    NoSuchValue,
    Source,
    field_of,
    field_of_json,
    secret_path,
    source_of,
)
from apps.platform_settings.api import SecretManagers, global_overrides, secret_managers
from kernel.errors import PlatformError
from kernel.redaction import known_secrets
from kernel.vault import WITHIN_S, Vault, VaultAway, VaultError, read_secret

KEPT_S: Final = 10.0
PAUSE_S: Final = 5.0
_MOST_KEPT: Final = 1_000
_THREADS: Final = 4
Fetch = Callable[[], Any]


class SecretUnresolved(PlatformError):
    """The message names key, provider and reference, never a value."""

    def __init__(self, reference: Mapping[str, str], why: str) -> None:
        key, provider, ref = (reference[name] for name in ("key", "provider", "ref"))
        super().__init__(f"secret {key} of provider {provider!r}, {ref!r}: {why}")


def resolve_secrets(references: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return variable → value for references {key, provider, ref}; raise SecretUnresolved."""
    return {reference["key"]: _resolved(reference) for reference in references}


def overriding(*, masked: bool = False) -> dict[str, str]:
    """Return the variables that the platform gives every step; `masked` hides secrets as `***`."""
    return {
        each.key: "***" if masked and each.sensitive else each.value for each in global_overrides()
    }


def secret_overrides(env: Mapping[str, str]) -> set[str]:
    """Return the names in `env` with the value of a sensitive override."""
    return {
        each.key
        for each in global_overrides()
        if each.sensitive and env.get(each.key) == each.value
    }


def _resolved(reference: Mapping[str, str]) -> str:
    """Return the value after it was registered with the redactor."""
    source = source_of(reference["provider"], reference["ref"])
    if source is None:
        raise SecretUnresolved(reference, "unknown provider")
    try:
        value = _READERS[source](secret_managers(), reference["ref"])
    except (ManagerFailed, NoSuchValue) as error:
        raise SecretUnresolved(reference, str(error)) from None
    known_secrets.add(value)
    return value


def _own_value(_managers: SecretManagers, ref: str) -> str:
    value = overriding().get(ref) or conf.secret_variable(ref)
    if value is None:
        raise NoSuchValue("no override and no PARTITA_SECRET_ variable has that name")
    return value


class ManagerFailed(Exception):
    """The read failed; the message holds no value and nothing that the manager responded."""


class ManagerAway(ManagerFailed):
    """The manager did not respond; to ask it again at once would take as long."""


class ManagerCache:
    """Recent responses of secret managers, in memory, for any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[Hashable, tuple[float, Any]] = {}
        self._away: dict[Hashable, tuple[float, str]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="secrets")

    def read(self, manager: Hashable, secret: str, fetch: Fetch) -> Any:
        """Return what `fetch` returns, now or up to 10 s ago; raise ManagerFailed."""
        with self._lock:
            until, found = self._kept.get((manager, secret), (0.0, None))
            if until > self._clock():
                return found
            until, why = self._away.get(manager, (0.0, ""))
            if until > self._clock():
                raise ManagerAway(why)
        try:
            found = self._threads.submit(fetch).result(WITHIN_S)
        except TimeoutError:
            raise self._mark_away(manager, f"no answer within {WITHIN_S:g} s") from None
        except ManagerAway as error:
            raise self._mark_away(manager, str(error)) from None
        self._keep((manager, secret), found)
        return found

    def forget(self) -> None:
        with self._lock:
            self._kept.clear()
            self._away.clear()

    def _mark_away(self, manager: Hashable, why: str) -> ManagerAway:
        with self._lock:
            self._away[manager] = (self._clock() + PAUSE_S, why)
        return ManagerAway(why)

    def _keep(self, key: Hashable, found: Any) -> None:
        with self._lock:
            now = self._clock()
            self._kept = {known: kept for known, kept in self._kept.items() if kept[0] > now}
            self._away = {known: away for known, away in self._away.items() if away[0] > now}
            if len(self._kept) < _MOST_KEPT:
                self._kept[key] = (now + KEPT_S, found)


manager_cache: Final = ManagerCache()


def vault_value(managers: SecretManagers, ref: str) -> str:
    """Return the value; raise ManagerFailed or NoSuchValue."""
    if not managers.vault_address:
        raise ManagerFailed("secrets.vaultAddress is not set in the platform settings")
    located = secret_path(ref, prefix=managers.prefix)
    if "/" not in located.path:
        raise ManagerFailed(
            "the path must name the mount of the engine and a secret, as in secret/name"
        )
    vault = Vault(
        address=managers.vault_address,
        namespace=managers.vault_namespace,
        token=_vault_token(),
        role=managers.vault_role,
    )
    fields = manager_cache.read(vault, located.path, partial(_read_vault, vault, located.path))
    return field_of(fields, located.field)


def _vault_token() -> str:
    try:
        return conf.vault_token()
    except OSError as error:
        raise ManagerFailed(f"VAULT_TOKEN_FILE cannot be read: {error.strerror}") from None


def _read_vault(vault: Vault, path: str) -> Mapping[str, Any]:
    try:
        return asyncio.run(read_secret(vault, path))
    except VaultAway as error:
        raise ManagerAway(str(error)) from None
    except VaultError as error:
        raise ManagerFailed(str(error)) from None


def aws_value(managers: SecretManagers, ref: str) -> str:
    """Return the value; raise ManagerFailed or NoSuchValue."""
    located, region = secret_path(ref), managers.aws_region
    text = manager_cache.read(
        ("aws", region), located.path, partial(_read_aws, region, located.path)
    )
    return field_of_json(text, located.field)


def _read_aws(region: str, secret_id: str) -> str:
    """Read a secret. The import of boto3 is here because it takes long and few need it."""
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    try:
        answer = _aws(region).get_secret_value(SecretId=secret_id)
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        raise ManagerFailed(
            _AWS_ERRORS.get(code, f"the service refused the request ({code})")
        ) from None
    except HTTPClientError as error:
        raise ManagerAway(f"the service cannot be reached ({type(error).__name__})") from None
    except (BotoCoreError, ValueError) as error:
        raise ManagerFailed(f"the request failed ({type(error).__name__})") from None
    if "SecretString" not in answer:
        raise ManagerFailed("the secret is binary; only text is supported")
    return str(answer["SecretString"])


_AWS_ERRORS: Final = {
    "ResourceNotFoundException": "the secret does not exist",
    "AccessDeniedException": "access denied",
    "UnrecognizedClientException": "access denied",
}


@lru_cache(maxsize=8)
def _aws(region: str) -> Any:
    """Return a client with the usual AWS credentials: variables, profile or role of the host."""
    import boto3
    from botocore.config import Config

    limits = Config(connect_timeout=2, read_timeout=3, retries={"total_max_attempts": 1})
    session = boto3.session.Session()
    return session.client("secretsmanager", region_name=region or None, config=limits)


_READERS: Final[dict[Source, Callable[[SecretManagers, str], str]]] = {
    "local": _own_value,
    "vault": vault_value,
    "aws": aws_value,
}
