"""Secrets of Vault and AWS Secrets Manager (reference: control-plane 10).

Each has 5 s to answer. What it said holds for 10 s, for the steps that start together; after no
answer it is left alone for 5 s: whoever waits here holds up what a supervisor is told.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, Final

from apps.executions import conf
from apps.executions.domain.secret_refs import field_of, field_of_json, place_of
from apps.platform_settings.api import SecretManagers
from kernel.vault import WITHIN_S, Vault, VaultAway, VaultError, read_secret

KEPT_S: Final = 10.0
LEFT_ALONE_S: Final = 5.0
_MOST_KEPT: Final = 1_000
_THREADS: Final = 4
Fetch = Callable[[], Any]


class ManagerFailed(Exception):
    """Says why, in words that hold no value and nothing that the manager said."""


class ManagerAway(ManagerFailed):
    """No answer: to ask again at once would take as long."""


class Asked:
    """What managers answered lately; any thread may ask. Values are in memory only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[Hashable, tuple[float, Any]] = {}
        self._away: dict[Hashable, tuple[float, str]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="secrets")

    def answer(self, manager: Hashable, secret: str, fetch: Fetch) -> Any:
        """What `fetch` returns, now or a moment ago. Raises ManagerFailed."""
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
            raise self._left_alone(manager, f"no answer within {WITHIN_S:g} s") from None
        except ManagerAway as error:
            raise self._left_alone(manager, str(error)) from None
        self._keep((manager, secret), found)
        return found

    def forget(self) -> None:
        with self._lock:
            self._kept.clear()
            self._away.clear()

    def _left_alone(self, manager: Hashable, why: str) -> ManagerAway:
        with self._lock:
            self._away[manager] = (self._clock() + LEFT_ALONE_S, why)
        return ManagerAway(why)

    def _keep(self, key: Hashable, found: Any) -> None:
        with self._lock:
            now = self._clock()
            self._kept = {known: kept for known, kept in self._kept.items() if kept[0] > now}
            self._away = {known: away for known, away in self._away.items() if away[0] > now}
            if len(self._kept) < _MOST_KEPT:
                self._kept[key] = (now + KEPT_S, found)


asked: Final = Asked()


def vault_value(managers: SecretManagers, ref: str) -> str:
    """Raises ManagerFailed, NoSuchValue."""
    if not managers.vault_address:
        raise ManagerFailed("secrets.vaultAddress is not set in the platform settings")
    place = place_of(ref, prefix=managers.prefix)
    if "/" not in place.path:
        raise ManagerFailed("its path names no secret below where the engine is mounted")
    vault = Vault(
        address=managers.vault_address,
        namespace=managers.vault_namespace,
        token=_vault_token(),
        role=managers.vault_role,
    )
    fields = asked.answer(vault, place.path, partial(_read_vault, vault, place.path))
    return field_of(fields, place.field)


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
    """Raises ManagerFailed, NoSuchValue."""
    place, region = place_of(ref), managers.aws_region
    text = asked.answer(("aws", region), place.path, partial(_read_aws, region, place.path))
    return field_of_json(text, place.field)


def _read_aws(region: str, secret_id: str) -> str:
    """The library is imported with the first secret: it takes long, and most have none there."""
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    try:
        answer = _aws(region).get_secret_value(SecretId=secret_id)
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        raise ManagerFailed(_AWS_WORDS.get(code, f"the service refuses ({code})")) from None
    except HTTPClientError as error:
        raise ManagerAway(f"the service cannot be reached ({type(error).__name__})") from None
    except (BotoCoreError, ValueError) as error:
        raise ManagerFailed(f"it cannot be asked for ({type(error).__name__})") from None
    if "SecretString" not in answer:
        raise ManagerFailed("it is no text")
    return str(answer["SecretString"])


_AWS_WORDS: Final = {
    "ResourceNotFoundException": "it is not there",
    "AccessDeniedException": "access is refused",
    "UnrecognizedClientException": "access is refused",
}


@lru_cache(maxsize=8)
def _aws(region: str) -> Any:
    """Credentials are found as in all programs of AWS: variables, profile, role of the host."""
    import boto3
    from botocore.config import Config

    limits = Config(connect_timeout=2, read_timeout=3, retries={"total_max_attempts": 1})
    session = boto3.session.Session()
    return session.client("secretsmanager", region_name=region or None, config=limits)
