"""Reads: who an account is now, and whether a credential still counts."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.core.cache.backends.locmem import LocMemCache

from apps.accounts import conf
from apps.accounts.domain.people import MAX_EMAIL
from apps.accounts.models import RevokedToken, UiSession, User
from kernel.clock import now

# In this process only. A change elsewhere is seen when the entry ends; 30 s are allowed
# (reference: control-plane 3).
_cache = LocMemCache("partita-standing", {"timeout": conf.STANDING_CACHE_S, "max_entries": 20_000})


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the store says about an active account."""

    user_id: UUID
    workspace_id: UUID
    is_admin: bool
    full_name: str
    email: str


def standing(user_id: UUID, *, fresh: bool = False) -> Standing | None:
    """Find the account, at most `STANDING_CACHE_S` old; None when there is no active one."""
    key = f"user:{user_id}"
    if not fresh and (known := _cache.get(key)) is not None:
        return known or None
    found = _read_standing(user_id)
    _cache.set(key, found or False)
    return found


def is_revoked(jti: str, *, fresh: bool = False) -> bool:
    key = f"jti:{jti}"
    if not fresh and (known := _cache.get(key)) is not None:
        return bool(known)
    revoked = RevokedToken.objects.filter(jti=jti).exists()
    _cache.set(key, revoked)
    return revoked


def is_session_alive(session_hash: str) -> bool:
    return UiSession.objects.filter(key_hash=session_hash, expires_at__gt=now()).exists()


def forget_standing(user_id: UUID, *jtis: str) -> None:
    """Read them from the store again. Call it after the commit of what changed."""
    _cache.delete_many([f"user:{user_id}", *(f"jti:{jti}" for jti in jtis)])


def find_user(email: str) -> User | None:
    """By the trimmed, lower-cased mail; what cannot be one is not looked up."""
    if len(email) > MAX_EMAIL or "\0" in email:
        return None
    return User.objects.filter(email=email).first()


def get_user(user_id: UUID) -> User:
    """With its workspace. Raises User.DoesNotExist."""
    return User.objects.select_related("workspace").get(pk=user_id)


def _read_standing(user_id: UUID) -> Standing | None:
    user = User.objects.filter(pk=user_id, is_active=True).first()
    if user is None:
        return None
    return Standing(
        user_id=user.id,
        workspace_id=user.workspace_id,
        is_admin=user.is_admin,
        full_name=user.full_name,
        email=user.email,
    )
