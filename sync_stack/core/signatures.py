"""Proof that a delivery comes from who knows the secret; in constant time.

(reference: sync-stack 2.5)
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SIGNING_PREFIX: Final = "whsec_"
CLOCK_SKEW_S: Final = 30.0
_UNIX_TIME: Final = re.compile(r"[0-9]{1,12}", re.ASCII)


class SignatureVerdict(StrEnum):
    """STALE: signed by a known key, but too long ago or in the future."""

    VALID = "valid"
    INVALID = "invalid"
    STALE = "stale"


class BadSigningSecret(ValueError):
    """A text that is not a signing secret `whsec_<base64>`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """What a platform's deliveries may be signed with; `signing`, when not empty, alone counts."""

    secrets: tuple[bytes, ...] = ()
    signing: tuple[bytes, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.secrets or self.signing)


def webhook_keys(secrets: Sequence[str], signing_secrets: Sequence[str] = ()) -> Keys:
    """Secrets that begin with `whsec_` are signing secrets. Raises BadSigningSecret."""
    tokens = [secret for secret in secrets if not secret.startswith(SIGNING_PREFIX)]
    signing = [
        *signing_secrets,
        *(secret for secret in secrets if secret.startswith(SIGNING_PREFIX)),
    ]
    return Keys(
        secrets=tuple(token.encode() for token in tokens),
        signing=tuple(signing_key(secret) for secret in signing),
    )


def signing_key(secret: str) -> bytes:
    """Return the key within `whsec_<base64>`; raise BadSigningSecret."""
    try:
        key = base64.b64decode(secret.removeprefix(SIGNING_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key or not secret.startswith(SIGNING_PREFIX):
        raise BadSigningSecret("a signing secret is whsec_ followed by base64 text")
    return key


def hex_hmac_matches(secrets: Sequence[bytes], body: bytes, given: str) -> bool:
    """Whether `given` is the hex HMAC-SHA256 of the body under one of the secrets."""
    proof = given.encode("latin-1", "replace")
    for secret in secrets:
        expected = hmac.digest(secret, body, "sha256").hex().encode()
        if hmac.compare_digest(expected, proof):
            return True
    return False


def prefixed_hmac_matches(secrets: Sequence[bytes], body: bytes, given: str) -> bool:
    """The same in the form `sha256=<hex>`; any other algorithm is invalid."""
    algorithm, sign, proof = given.partition("=")
    return algorithm == "sha256" and bool(sign) and hex_hmac_matches(secrets, body, proof)


def token_matches(secrets: Sequence[bytes], given: str) -> bool:
    token = given.encode("latin-1", "replace")
    return any(hmac.compare_digest(secret, token) for secret in secrets)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardWebhook:
    """The three headers of a signed delivery as the Standard Webhooks write them."""

    id: str
    timestamp: str
    signatures: str

    def verdict(
        self, keys: Sequence[bytes], body: bytes, *, now_s: float, window_s: float
    ) -> SignatureVerdict:
        """VALID when one `v1,<base64>` fits one key and the time lies within the window."""
        if not _UNIX_TIME.fullmatch(self.timestamp) or not self.id:
            return SignatureVerdict.INVALID
        signed = b".".join((self.id.encode("latin-1"), self.timestamp.encode(), body))
        if not self._is_signed(keys, signed):
            return SignatureVerdict.INVALID
        fresh = now_s - window_s <= int(self.timestamp) <= now_s + CLOCK_SKEW_S
        return SignatureVerdict.VALID if fresh else SignatureVerdict.STALE

    def _is_signed(self, keys: Sequence[bytes], signed: bytes) -> bool:
        proofs = [
            entry.removeprefix("v1,").encode("latin-1")
            for entry in self.signatures.split(" ")[:16]
            if entry.startswith("v1,")
        ]
        expected = [base64.b64encode(hmac.digest(key, signed, "sha256")) for key in keys]
        return any(hmac.compare_digest(want, proof) for want in expected for proof in proofs)
