"""Authentication: access tokens, UI sessions and stream tickets (reference: control-plane 3)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.db import close_old_connections, connection
from django.http import HttpRequest
from django.middleware.csrf import CsrfViewMiddleware
from django.utils.crypto import constant_time_compare

from apps.accounts import conf
from apps.accounts.domain.api_tokens import TokenScope, is_api_token
from apps.accounts.domain.ci_sessions import is_ci_token, is_in_reach
from apps.accounts.domain.errors import Forbidden, Unauthenticated
from apps.accounts.domain.principal import Principal
from apps.accounts.domain.tokens import verify_access_token
from apps.accounts.selectors import active_account, is_credential_alive, is_issued, is_revoked
from apps.accounts.services.api_tokens import api_token_row
from apps.accounts.services.ci_sessions import (
    ci_principal,
    ci_session_row,
    is_ci_session_alive,
    session_note,
)
from apps.accounts.services.tickets import redeem_ticket
from apps.accounts.sessions import SessionStore
from apps.observability.api import request_context
from kernel.clock import now

_META_KEY = "partita.principal"


def authenticate_request(request: HttpRequest) -> Principal | None:
    """Authenticate by `Authorization: Bearer` or, without that header, by the session cookie.

    Return None without a credential. Raise Unauthenticated for an invalid one, and Forbidden
    for an unsafe method with the cookie but without its CSRF token (csrf_failed), and for a CI
    session on a route that it does not reach (ci_session_limited).
    """
    principal: Principal | None = request.META.get(_META_KEY)
    if principal is None and (principal := _identify(request)) is not None:
        _remember(request, principal)
    if principal is not None and principal.session_hash:
        _enforce_csrf(request)
    if principal is not None and principal.ci_session_hash:
        _enforce_reach(request)
    return principal


def principal_of(request: HttpRequest) -> Principal | None:
    """Return the principal or None, without a CSRF check; never raise Unauthenticated.

    A CI session counts as none: the routes that it reaches require a principal.
    """
    known: Principal | None = request.META.get(_META_KEY)
    if known is not None:
        return known
    try:
        principal = _identify(request)
    except Unauthenticated:
        return None
    if principal is not None and not principal.ci_session_hash:
        _remember(request, principal)
        return principal
    return None


def require_principal(request: HttpRequest) -> Principal:
    """Return the principal; raise Unauthenticated, also without a credential, and Forbidden."""
    principal = authenticate_request(request)
    if principal is None:
        raise Unauthenticated("Sign in first")
    return principal


def authenticate_stream(request: HttpRequest, path: str) -> Principal:
    """Authenticate one of the streaming routes, which also accept `?token=`.

    The parameter is an access token, or a ticket for `path`, the request's path; a ticket is used
    up. Raise Unauthenticated.
    """
    token = request.GET.get("token")
    if token is None or _bearer_token(request) is not None:
        return require_principal(request)
    if "." in token:
        principal = _by_access_token(token)
    else:
        row = redeem_ticket(token, path)
        principal = _principal(
            row.user_id,
            row.credential_expires_at,
            token_jti=row.token_jti,
            session_hash=row.session_hash,
        )
    _remember(request, principal)
    return principal


def attach_session(request: HttpRequest) -> None:
    """Set `request.session` of a request that did not pass the middleware."""
    request.session = SessionStore(request.COOKIES.get(conf.session_cookie_name()))


def recheck(principal: Principal) -> bool:
    """Return whether the credential is still valid with the same rights, read from the store.

    A stream calls this every 30 s, on any thread, and closes on False.
    """
    if not connection.in_atomic_block:
        close_old_connections()  # no request does it on this thread
    if principal.ci_session_hash:
        return is_ci_session_alive(principal)
    account = active_account(principal.user_id, fresh=True)
    return (
        account is not None
        and account.workspace_id == principal.workspace_id
        and account.is_admin >= principal.is_admin
        and account.role.includes(principal.role)
        and now() < principal.expires_at + conf.LEEWAY
        and is_credential_alive(
            principal.token_jti, principal.session_hash, principal.api_token_hash
        )
    )


def _remember(request: HttpRequest, principal: Principal) -> None:
    request.META[_META_KEY] = principal
    if principal.ci_session_hash:  # nobody's account; its note stands already
        request_context().workspace_id = str(principal.workspace_id)
        return
    record_actor(principal.user_id, principal.workspace_id, is_admin=principal.is_admin)


def record_actor(user_id: UUID, workspace_id: UUID, *, is_admin: bool) -> None:
    """Name the account in the trace and the audit record of this request."""
    context = request_context()
    context.user_id = str(user_id)
    context.workspace_id = str(workspace_id)
    context.is_admin = is_admin


def _identify(request: HttpRequest) -> Principal | None:
    token = _bearer_token(request)
    if token is None:
        return _by_session(request)
    if is_ci_token(token):
        return _by_ci_token(token)
    return _by_api_token(token) if is_api_token(token) else _by_access_token(token)


def _by_ci_token(token: str) -> Principal:
    row = ci_session_row(token)
    request_context().note = session_note(row)
    return ci_principal(row)


def _enforce_reach(request: HttpRequest) -> None:
    if not is_in_reach(request.method or "", request.path):
        raise Forbidden(
            "a CI session launches, reads, cancels and reruns runs of its suites, nothing else",
            code="ci_session_limited",
        )


def _by_api_token(token: str) -> Principal:
    row = api_token_row(token)
    principal = _principal(row.user_id, row.expires_at)
    scope = TokenScope(row.scope)
    limited = replace(
        principal,
        ceiling=scope.role,
        is_admin=principal.is_admin and scope == TokenScope.ADMIN,
        api_token_hash=row.token_hash,
    )
    return limited.with_role(principal.role)


def _bearer_token(request: HttpRequest) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _by_access_token(token: str) -> Principal:
    claims = verify_access_token(token, conf.jwt_secrets(), leeway=conf.LEEWAY)
    if claims.is_of_previous and not is_issued(claims.jti, claims.user_id, claims.expires_at):
        raise Unauthenticated("The access token is not valid", code="token_invalid")
    if is_revoked(claims.jti):
        raise Unauthenticated("The access token was revoked", code="token_revoked")
    return _principal(claims.user_id, claims.expires_at, token_jti=claims.jti)


def _by_session(request: HttpRequest) -> Principal | None:
    session = getattr(request, "session", None)
    if not isinstance(session, SessionStore) or not session.session_key:
        return None
    user_id = session.get(SESSION_KEY)
    if user_id is None or session.expires_at is None:
        return None
    if not _has_password_of(session, UUID(user_id)):
        return None
    return _principal(UUID(user_id), session.expires_at, session_hash=session.key_hash)


def _has_password_of(session: SessionStore, user_id: UUID) -> bool:
    """Return whether the session began with the user's password of now.

    This process may remember an older password than the session began with, so it looks twice.
    """
    accounts = (active_account(user_id, fresh=fresh) for fresh in (False, True))
    began_with = session.get(HASH_SESSION_KEY, "")
    return any(
        account is not None and constant_time_compare(began_with, account.session_auth_hash)
        for account in accounts
    )


def _principal(
    user_id: UUID, expires_at: datetime, *, token_jti: str = "", session_hash: str = ""
) -> Principal:
    account = active_account(user_id)
    if account is None:
        raise Unauthenticated("The account is not active", code="token_revoked")
    return Principal(
        user_id=user_id,
        workspace_id=account.workspace_id,
        is_admin=account.is_admin,
        full_name=account.full_name,
        email=account.email,
        role=account.role,
        expires_at=expires_at,
        token_jti=token_jti,
        session_hash=session_hash,
    )


class _CsrfCheck(CsrfViewMiddleware):
    """Returns why a request is refused, instead of an HTML page."""

    def _reject(self, request: HttpRequest, reason: str) -> Any:
        return reason


def _enforce_csrf(request: HttpRequest) -> None:
    check = _CsrfCheck(lambda _request: None)  # type: ignore[arg-type]
    check.process_request(request)
    if check.process_view(request, None, (), {}):  # type: ignore[arg-type]
        raise Forbidden(
            "The X-CSRFToken header must equal the csrftoken cookie", code="csrf_failed"
        )
