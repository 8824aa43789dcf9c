"""The keys that an issuer of CI tokens signs with (OpenID Connect Discovery; RFC 7517).

They are fetched from the addresses that the issuer's own document names, checked, and kept for ten
minutes. A key id that is not known is asked for at most once a minute, whoever sends it. An issuer
that is away keeps its last keys for an hour. (reference: control-plane 3)
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from apps.accounts import conf
from apps.accounts.domain.errors import CiIssuerUnavailable
from kernel.addresses import LOCAL_TOO, PUBLIC_ONLY
from kernel.ci_trust import TrustRule
from kernel.pinned_http import pinned_client

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
_LIFE_S: Final = 600.0
_LONGEST_LIFE_S: Final = 3600.0  # while the issuer is away
_AGAIN_S: Final = 60.0  # after a fetch, for a key id that it did not hold
_AFTER_FAILURE_S: Final = 10.0
_WITHIN_S: Final = 8.0  # both documents
_MAX_BYTES: Final = 256 * 1024
_MAX_KEYS: Final = 100
_LEAST_RSA_BITS: Final = 2048
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_UNREADABLE: Final = (
    httpx.HTTPError,
    httpx.InvalidURL,
    ValueError,
    TypeError,
    TimeoutError,
    RecursionError,
)
_log = logging.getLogger("partita.accounts")


@dataclass(slots=True)
class _KeyRing:
    """The keys of one issuer by key id; one thread fetches them, the others wait for it."""

    keys: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fetched_at: float = float("-inf")
    failed_at: float = float("-inf")
    lock: threading.Lock = field(default_factory=threading.Lock)


_rings: dict[tuple[str, bool], _KeyRing] = {}
_adding = threading.Lock()


def issuer_key(rule: TrustRule, key_id: str, algorithm: str) -> jwt.PyJWK | None:
    """Return the issuer's key of this id for this algorithm, None if it has none.

    `rule` is any rule of the issuer. Raise CiIssuerUnavailable.
    """
    with _adding:
        ring = _rings.setdefault((rule.issuer, rule.allow_local_network), _KeyRing())
    if not ring.lock.acquire(timeout=_WITHIN_S):
        raise CiIssuerUnavailable("the issuer of the token does not answer")
    try:
        _refresh(ring, rule, key_id)
        found = ring.keys.get(key_id)
    finally:
        ring.lock.release()
    return None if found is None else _usable_key(found, algorithm)


def forget_issuer_keys() -> None:
    _rings.clear()


def _refresh(ring: _KeyRing, rule: TrustRule, key_id: str) -> None:
    """Fetch the keys where they are old, or lack this one; raise CiIssuerUnavailable."""
    now = time.monotonic()
    age = now - ring.fetched_at
    if age < (_LIFE_S if key_id in ring.keys else _AGAIN_S):
        return
    is_usable = age < _LONGEST_LIFE_S and key_id in ring.keys
    if now - ring.failed_at >= _AFTER_FAILURE_S:
        try:
            ring.keys = asyncio.run(_fetch_keys(rule))
        except _UNREADABLE as error:
            ring.failed_at = time.monotonic()
            _log.warning("The keys of %s cannot be read: %.300s", rule.issuer, _reason(error))
        else:
            ring.fetched_at = time.monotonic()
            return
    if not is_usable:
        raise CiIssuerUnavailable("the keys of the token's issuer cannot be read now")


def _reason(error: Exception) -> str:
    return str(error) or f"no answer within {_WITHIN_S:g} s ({type(error).__name__})"


async def _fetch_keys(rule: TrustRule) -> Mapping[str, Mapping[str, Any]]:
    where = f"{rule.issuer.rstrip('/')}/.well-known/openid-configuration"
    async with asyncio.timeout(_WITHIN_S):
        document = await _fetch(rule, where)
        if document.get("issuer") != rule.issuer:
            raise ValueError(f"{where} names the issuer {document.get('issuer')!r:.200}")
        address = str(document.get("jwks_uri"))
        listed = (await _fetch(rule, address)).get("keys")
    if not isinstance(listed, list) or len(listed) > _MAX_KEYS:
        raise ValueError(f"{address:.200} has no list of at most {_MAX_KEYS} keys")
    keys = [each for each in listed if isinstance(each, dict) and isinstance(each.get("kid"), str)]
    return {each["kid"]: each for each in keys}


async def _fetch(rule: TrustRule, address: str) -> Mapping[str, Any]:
    """Return a JSON object; only the issuer's own host may be on the local network."""
    host = _require_protected(address)
    is_own = rule.allow_local_network and host == urlsplit(rule.issuer).hostname
    async with (
        pinned_client(LOCAL_TOO if is_own else PUBLIC_ONLY, timeout=_WITHIN_S) as client,
        client.stream("GET", address, headers={"Accept": "application/json"}) as answer,
    ):
        if answer.status_code != httpx.codes.OK:
            raise ValueError(f"{address:.200} answers {answer.status_code}")
        content = bytearray()
        async for piece in answer.aiter_bytes():
            content += piece
            if len(content) > _MAX_BYTES:
                raise ValueError(f"{address:.200} is larger than {_MAX_BYTES} bytes")
    document = json.loads(content)
    if not isinstance(document, dict):
        raise TypeError(f"{address:.200} is not a JSON object")
    return document


def _require_protected(address: str) -> str:
    """Return the host of an https address; http is for loopback where this site has none either."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    is_plain = parts.scheme == "http" and host in _LOOPBACK and not conf.is_protected_site()
    if not host or not (parts.scheme == "https" or is_plain):
        raise ValueError(f"{address:.200} is not an https address")
    return host


def _usable_key(found: Mapping[str, Any], algorithm: str) -> jwt.PyJWK | None:
    """Return a key that may check signatures of this algorithm, None for any other."""
    if found.get("use", "sig") != "sig" or found.get("alg", algorithm) != algorithm:
        return None
    try:
        key = jwt.PyJWK(dict(found), algorithm=algorithm)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    is_weak = isinstance(key.key, RSAPublicKey) and key.key.key_size < _LEAST_RSA_BITS
    return None if is_weak or found.get("kty") == "oct" else key
