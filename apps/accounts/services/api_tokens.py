"""API tokens: credentials of programs such as CI, with a scope and an end.

(reference: control-plane 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db.models import Q

from apps.accounts.domain.account_rules import name_errors
from apps.accounts.domain.api_tokens import API_TOKEN_PREFIX, TokenScope
from apps.accounts.domain.errors import Unauthenticated
from apps.accounts.domain.principal import Principal
from apps.accounts.domain.tokens import hash_token, new_opaque_token
from apps.accounts.models import ApiToken
from apps.accounts.selectors import is_credential_alive
from apps.streams.api import unit_of_work
from kernel.clock import now
from kernel.errors import InvalidInput, NotFound

_MAX_TOKENS: Final = 50  # of one user
_USE_NOTED_EVERY: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiToken:
    """`token` is shown once; the store holds its hash."""

    row: ApiToken
    token: str = field(repr=False)


@unit_of_work
def create_api_token(
    principal: Principal, *, name: str, scope: TokenScope, days: int
) -> NewApiToken:
    """Create a token that ends after `days`; raise Forbidden (session_required), InvalidInput."""
    principal.require_session()
    if not is_credential_alive(principal.token_jti, principal.session_hash):
        raise Unauthenticated("the credential was revoked", code="token_revoked")
    name = name.strip()
    if errors := name_errors(name):
        raise InvalidInput(f"name {errors[0].detail}", errors=errors)
    return issue_api_token(principal.user_id, name=name, scope=scope, days=days)


@unit_of_work
def replace_api_token(user_id: UUID, *, name: str, scope: TokenScope, days: int) -> NewApiToken:
    """Create a token, and revoke those of the same name of this user; for processes of ours."""
    ApiToken.objects.filter(user_id=user_id, name=name).delete()
    return issue_api_token(user_id, name=name, scope=scope, days=days)


def issue_api_token(user_id: UUID, *, name: str, scope: TokenScope, days: int) -> NewApiToken:
    """Store a token of a user, in the caller's unit of work; raise InvalidInput for one too many.

    The caller has checked who wants it, and the name.
    """
    require_room_for_token(user_id)
    token = API_TOKEN_PREFIX + new_opaque_token()
    row = ApiToken.objects.create(
        user_id=user_id,
        name=name,
        token_hash=hash_token(token),
        scope=scope,
        expires_at=now() + timedelta(days=days),
    )
    return NewApiToken(row=row, token=token)


def require_room_for_token(user_id: UUID) -> None:
    """Raise InvalidInput if the user has as many tokens as one may have."""
    if ApiToken.objects.alive().filter(user_id=user_id).count() >= _MAX_TOKENS:
        raise InvalidInput(f"you have {_MAX_TOKENS} API tokens already; revoke some first")


def api_token_of(principal: Principal) -> ApiToken | None:
    """Return the API token that the caller uses; None for one with another credential."""
    if not principal.api_token_hash:
        return None
    return ApiToken.objects.filter(token_hash=principal.api_token_hash).first()


def api_tokens_of(principal: Principal) -> Sequence[ApiToken]:
    """Return the caller's tokens that have not ended, the newest first."""
    principal.require_session()
    own = ApiToken.objects.alive().filter(user_id=principal.user_id)
    return list(own.order_by("-created_at"))


@unit_of_work
def revoke_api_token(principal: Principal, token_id: UUID) -> None:
    """End one of the caller's tokens at once; raise Forbidden, NotFound."""
    principal.require_session()
    if not ApiToken.objects.filter(pk=token_id, user_id=principal.user_id).delete()[0]:
        raise NotFound("there is no such API token")


@unit_of_work
def revoke_used_token(principal: Principal) -> None:
    """End the API token that the caller uses, at once: a program signs itself out."""
    ApiToken.objects.filter(token_hash=principal.api_token_hash).delete()


def api_token_row(token: str) -> ApiToken:
    """Return the row of a presented token, and note its use; raise Unauthenticated."""
    row = ApiToken.objects.filter(token_hash=hash_token(token)).first()
    if row is None:
        raise Unauthenticated("the API token is unknown or was revoked", code="token_revoked")
    if row.expires_at <= now():
        raise Unauthenticated("the API token has expired", code="token_expired")
    if row.last_used_at is None or row.last_used_at < now() - _USE_NOTED_EVERY:
        long_ago = Q(last_used_at=None) | Q(last_used_at__lt=now() - _USE_NOTED_EVERY)
        ApiToken.objects.filter(long_ago, pk=row.pk).update(last_used_at=now())
    return row
