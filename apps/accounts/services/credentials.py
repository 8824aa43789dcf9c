"""Who sends a request: access tokens, UI sessions, stream tickets (reference: control-plane 3)."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connection
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from rest_framework.authentication import CSRFCheck

from apps.accounts import conf
from apps.accounts.domain import access_tokens
from apps.accounts.domain.errors import Forbidden, Unauthenticated
from apps.accounts.domain.opaque import hashed
from apps.accounts.domain.principal import Principal
from apps.accounts.models import StreamTicket
from apps.accounts.selectors import is_revoked, is_session_alive, standing
from apps.accounts.sessions import USER_ID, SessionStore
from apps.system.api import request_context
from kernel.clock import now

_REMEMBERED = "partita.principal"  # in request.META


def authenticate_request(request: HttpRequest) -> Principal | None:
    """By `Authorization: Bearer`, or without that by the session cookie.

    A Bearer header is the only credential looked at. None without a credential. Raises
    Unauthenticated for one that does not count, and Forbidden
    (csrf_failed) for an unsafe method with the cookie but without its CSRF token.
    """
    principal: Principal | None = request.META.get(_REMEMBERED)
    if principal is None and (principal := _identified(request)) is not None:
        remember(request, principal)
    if principal is not None and principal.session_hash:
        _enforce_csrf(request)
    return principal


def principal_of(request: HttpRequest) -> Principal | None:
    """Like `authenticate_request`, for those who only want to know: never raises, no CSRF check."""
    known: Principal | None = request.META.get(_REMEMBERED)
    if known is not None:
        return known
    try:
        principal = _identified(request)
    except Unauthenticated:
        return None
    if principal is not None:
        remember(request, principal)
    return principal


def lazy_principal(request: HttpRequest) -> SimpleLazyObject[Principal | None]:
    """For templates: `principal_of`, asked when first used."""
    return SimpleLazyObject(lambda: principal_of(request))


def signed_in(request: HttpRequest) -> Principal:
    """`authenticate_request` for views that need someone. Raises Unauthenticated, Forbidden."""
    principal = authenticate_request(request)
    if principal is None:
        raise Unauthenticated("Sign in first")
    return principal


async def require_session(request: HttpRequest) -> Principal:
    """`signed_in` for async views."""
    return await sync_to_async(signed_in)(request)


def authenticate_stream(request: HttpRequest, path: str) -> Principal:
    """For the four streaming routes, which also take `?token=`: a ticket or an access token.

    `path` is the request's path; a ticket that was asked for another one does not count. A ticket
    is used up. Raises Unauthenticated.
    """
    token = request.GET.get("token")
    if token is None or _bearer_token(request) is not None:
        return signed_in(request)
    principal = _of_access_token(token) if "." in token else _of_ticket(token, path)
    remember(request, principal)
    return principal


def recheck(principal: Principal) -> bool:
    """Whether the credential still counts and gives the same rights, read from the store.

    Callable on any thread; a stream asks every 30 s and closes on False.
    """
    if not connection.in_atomic_block:
        close_old_connections()  # a thread without requests never notices a restart of the store
    account = standing(principal.user_id, fresh=True)
    return (
        account is not None
        and account.workspace_id == principal.workspace_id
        and account.is_admin >= principal.is_admin
        and now() < principal.expires_at + conf.LEEWAY
        and _is_credential_alive(principal.token_jti, principal.session_hash)
    )


def remember(request: HttpRequest, principal: Principal) -> None:
    """Keep it with the request, and tell trace and audit."""
    request.META[_REMEMBERED] = principal
    name_account(principal.user_id, principal.workspace_id, is_admin=principal.is_admin)


def name_account(user_id: UUID, workspace_id: UUID, *, is_admin: bool) -> None:
    """Tell trace and audit who acts."""
    context = request_context()
    context.user_id = str(user_id)
    context.workspace_id = str(workspace_id)
    context.is_admin = is_admin


def _identified(request: HttpRequest) -> Principal | None:
    token = _bearer_token(request)
    return _of_session(request) if token is None else _of_access_token(token)


def _bearer_token(request: HttpRequest) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _of_access_token(token: str) -> Principal:
    claims = access_tokens.verified(token, conf.jwt_secrets(), leeway=conf.LEEWAY)
    if is_revoked(claims.jti):
        raise Unauthenticated("The access token was revoked", code="token_revoked")
    return _principal(claims.user_id, claims.expires_at, token_jti=claims.jti)


def _of_session(request: HttpRequest) -> Principal | None:
    session = getattr(request, "session", None)
    if not isinstance(session, SessionStore) or not session.session_key:
        return None
    user_id = session.get(USER_ID)
    if user_id is None or session.expires_at is None or standing(UUID(user_id)) is None:
        return None
    return _principal(UUID(user_id), session.expires_at, session_hash=session.key_hash)


def _of_ticket(ticket: str, path: str) -> Principal:
    live = StreamTicket.objects.filter(
        ticket_hash=hashed(ticket), path__in=["", path], expires_at__gt=now(), used_at=None
    )
    row = live.first()
    if row is None or not live.update(used_at=now()):  # the update decides between two at once
        raise Unauthenticated("The ticket is not valid", code="ticket_invalid")
    if not _is_credential_alive(row.token_jti, row.session_hash):
        raise Unauthenticated("The ticket is not valid", code="ticket_invalid")
    return _principal(
        row.user_id,
        row.credential_expires_at,
        token_jti=row.token_jti,
        session_hash=row.session_hash,
    )


def _is_credential_alive(token_jti: str, session_hash: str) -> bool:
    if session_hash:
        return is_session_alive(session_hash)
    return not is_revoked(token_jti, fresh=True)


def _principal(
    user_id: UUID, expires_at: datetime, *, token_jti: str = "", session_hash: str = ""
) -> Principal:
    account = standing(user_id)
    if account is None:
        raise Unauthenticated("The account is not active", code="token_revoked")
    return Principal(
        user_id=user_id,
        workspace_id=account.workspace_id,
        is_admin=account.is_admin,
        full_name=account.full_name,
        email=account.email,
        expires_at=expires_at,
        token_jti=token_jti,
        session_hash=session_hash,
    )


def _enforce_csrf(request: HttpRequest) -> None:
    check = CSRFCheck(lambda _request: None)  # type: ignore[arg-type]
    check.process_request(request)
    if check.process_view(request, None, (), {}):  # type: ignore[arg-type]
        raise Forbidden(
            "The X-CSRFToken header must equal the csrftoken cookie", code="csrf_failed"
        )
