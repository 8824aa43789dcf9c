"""Credentials for calls to a worker: the shared secret, or a token derived from it."""

from __future__ import annotations

import hmac

from kernel.errors import PlatformError


class WorkerSecretUnset(PlatformError):
    code = "agent_secret_unset"

    def __init__(self) -> None:
        super().__init__("AGENT_SHARED_SECRET is not set on this worker, so it answers no requests")


class WorkerCredentialInvalid(PlatformError):
    code = "agent_credential_invalid"

    def __init__(self) -> None:
        super().__init__("this credential is not valid for this worker")


def derived_token(secret: str, agent_id: str) -> str:
    """Return the token that the control plane sends to a worker instead of the secret."""
    return hmac.digest(secret.encode(), agent_id.encode(), "sha256").hex()


def check_bearer(authorization: str, *, secret: str, agent_id: str) -> None:
    """Check a bearer token in constant time.

    Raises WorkerSecretUnset, WorkerCredentialInvalid.
    """
    if not secret:
        raise WorkerSecretUnset
    scheme, _, token = authorization.strip().partition(" ")
    given = token.strip().encode("utf-8", "replace") if scheme.lower() == "bearer" else b""
    known = (secret.encode(), derived_token(secret, agent_id).encode())
    if not any([hmac.compare_digest(given, each) for each in known]):  # noqa: C419 - both, always
        raise WorkerCredentialInvalid
