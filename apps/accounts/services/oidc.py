"""Single sign-on with OpenID Connect: to the provider and back (reference: control-plane 3)."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from django.core import signing
from django.utils.crypto import constant_time_compare

from apps.accounts import conf
from apps.accounts.domain.errors import ExternalSignInRefused
from apps.accounts.domain.external_identity import (
    ExternalIdentity,
    identity_of,
    safe_return_url,
    wrong_types,
)
from kernel.errors import FieldError, InvalidInput, NotFound

if TYPE_CHECKING:
    from apps.accounts.services.oidc_client import OidcClient

COOKIE: Final = "cookie"
CODE: Final = "code"
_SALT: Final = "partita.oidc-state"
_MAX_TEXT: Final = 4096  # of `code` and `state` in the provider's query
_log = logging.getLogger("partita.accounts")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInAttempt:
    """What the state cookie holds. `flow`: COOKIE ends in a UI session, CODE in a one-time code."""

    state: str
    nonce: str
    verifier: str
    return_url: str
    flow: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInRedirect:
    """Where the browser goes, and the value of the state cookie that it takes along."""

    url: str
    cookie: str


def require_provider() -> conf.OidcSettings:
    """Return the provider; raise NotFound (oidc_disabled), which says what is not set."""
    configured = conf.oidc()
    if configured is None:
        raise NotFound(
            "single sign-on is not set up: OIDC_ENABLED is not true", code="oidc_disabled"
        )
    if configured.missing:
        names = " and ".join(configured.missing)
        raise NotFound(f"single sign-on is not set up: {names} not set", code="oidc_disabled")
    return configured


def begin_sign_in(return_url: str, flow: str) -> SignInRedirect:
    """Raise NotFound (oidc_disabled), InvalidInput, ProviderError."""
    configured = require_provider()
    attempt = SignInAttempt(
        state=secrets.token_urlsafe(32),
        nonce=secrets.token_urlsafe(32),
        verifier=secrets.token_urlsafe(48),
        return_url=safe_return_url(return_url, conf.return_origins()),
        flow=_flow(flow, configured),
    )
    url = _client(configured).authorization_url(
        state=attempt.state, nonce=attempt.nonce, verifier=attempt.verifier
    )
    fields = [
        attempt.state,
        attempt.nonce,
        attempt.verifier,
        attempt.return_url,
        attempt.flow,
    ]
    cookie = signing.dumps(fields, key=configured.state_secret, salt=_SALT)
    return SignInRedirect(url=url, cookie=cookie)


def read_attempt(cookie: str) -> SignInAttempt | None:
    """Return the attempt that the state cookie holds; None for a forged or expired one."""
    configured = require_provider()
    try:
        fields: Any = signing.loads(
            cookie, key=configured.state_secret, salt=_SALT, max_age=conf.OIDC_STATE_LIFE
        )
    except signing.BadSignature:
        return None
    state, nonce, verifier, return_url, flow = fields
    return SignInAttempt(
        state=state, nonce=nonce, verifier=verifier, return_url=return_url, flow=flow
    )


def finish_sign_in(attempt: SignInAttempt | None, query: Mapping[str, str]) -> ExternalIdentity:
    """Return who the provider says it is; `query` is that of the callback.

    Raise ExternalSignInRefused (oidc_state_invalid, oidc_denied), ProviderError.
    """
    configured = require_provider()
    state, code = query.get("state", ""), query.get("code", "")
    if attempt is None or not constant_time_compare(state, attempt.state):
        raise ExternalSignInRefused(
            "this sign-in was not begun in this browser, or too long ago", code="oidc_state_invalid"
        )
    client = _client(configured)
    client.check_issuer(query.get("iss"))
    if query.get("error") == "access_denied":
        raise ExternalSignInRefused("the sign-in was canceled", code="oidc_denied")
    if query.get("error") or not 0 < len(code) <= _MAX_TEXT:
        raise ExternalSignInRefused("the sign-in provider reported an error")
    claims = client.claims(code, nonce=attempt.nonce, verifier=attempt.verifier)
    for fault in wrong_types(claims, configured.claims):
        _log.warning("The sign-in provider %s: %s", configured.provider_id, fault)
    identity = identity_of(configured.provider_id, claims, configured.claims)
    # Without groups of its own, this site's administrators are none of the provider's business.
    return identity if configured.claims.admin_groups else replace(identity, is_admin=False)


def _flow(wanted: str, configured: conf.OidcSettings) -> str:
    if wanted in (COOKIE, "") and (wanted or not configured.frontend_callback_url):
        return COOKIE
    if wanted in (CODE, "") and configured.frontend_callback_url:
        return CODE
    detail = "must be cookie, or code where OIDC_FRONTEND_CALLBACK_URL is set"
    error = FieldError(pointer="/flow", code="invalid_parameter", detail=detail)
    raise InvalidInput(f"flow {detail}", code="invalid_parameter", errors=[error])


def _client(configured: conf.OidcSettings) -> OidcClient:
    from apps.accounts.services.oidc_client import OidcClient  # its HTTP library is slow to import

    return OidcClient(configured)
