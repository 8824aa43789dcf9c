"""What the errors of the HTTP client mean."""

from __future__ import annotations

import ssl
from typing import Final

import httpx

from apps.oci.domain.repositories import RegistryFailure
from kernel.addresses import AddressRefused

_MAX_CAUSES: Final = 8


def failure(error: Exception) -> RegistryFailure:
    """Return what a client's error means."""
    causes = _causes(error)
    refused = [cause for cause in causes if isinstance(cause, AddressRefused)]
    if refused:
        return RegistryFailure("address_refused", str(refused[0]))
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return RegistryFailure(
            "tls_failed", f"the certificate is not accepted: {_tls_words(causes)}"
        )
    for kind, code, detail in _MEANINGS:
        if isinstance(error, kind):
            return RegistryFailure(code, detail)
    return RegistryFailure(
        "registry_unreachable", f"the registry cannot be used ({type(error).__name__})"
    )


_MEANINGS: Final = (
    (httpx.TimeoutException, "timeout", "the registry does not answer in time"),
    (httpx.ConnectError, "registry_unreachable", "the registry cannot be reached"),
    (httpx.ProtocolError, "invalid_response", "the registry does not speak HTTP as it should"),
)


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and len(found) < _MAX_CAUSES:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _tls_words(causes: list[BaseException]) -> str:
    words = [
        cause.verify_message for cause in causes if isinstance(cause, ssl.SSLCertVerificationError)
    ]
    return words[0] if words else "TLS failed"
