"""Reads: accounts, and whether a credential is still valid."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.apps import apps
from django.core.cache.backends.locmem import LocMemCache
from django.db import DatabaseError
from django.urls import reverse
from django.utils.module_loading import import_string

from apps.accounts import conf
from apps.accounts.domain.account_rules import MAX_EMAIL
from apps.accounts.domain.roles import Role
from apps.accounts.models import (
    ApiToken,
    Membership,
    RefreshToken,
    RevokedToken,
    UiSession,
    User,
    Workspace,
)
from apps.streams.api import DatastoreUnavailable

# In this process only. A change by another process is seen when the entry expires; 30 s are
# allowed (reference: control-plane 3).
_cache = LocMemCache("partita-accounts", {"timeout": conf.ACCOUNT_CACHE_S, "max_entries": 20_000})


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveAccount:
    """The stored facts of an active account."""

    user_id: UUID
    workspace_id: UUID
    is_admin: bool
    full_name: str
    email: str
    role: Role  # in that workspace
    session_auth_hash: str = field(repr=False)  # of the password: its sessions end with it


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInProvider:
    """A way to sign in elsewhere. `hint`: what is missing, empty when it can be used."""

    provider_id: str
    name: str
    start_url: str
    hint: str = ""

    @property
    def button_label(self) -> str:
        return f"Continue with {self.name}"

    @property
    def enabled(self) -> bool:
        return not self.hint


def sign_in_providers() -> list[SignInProvider]:
    """Return the configured providers, also those that something is missing for."""
    found: list[SignInProvider] = []
    if (configured := conf.oidc()) is not None:
        found.append(
            sign_in_provider(
                configured.provider_id,
                configured.provider_name,
                start_url=reverse("accounts:oidc-login"),
                missing=configured.missing,
            )
        )
    named = [getattr(config, "sign_in_providers", None) for config in apps.get_app_configs()]
    for path in filter(None, named):
        found += import_string(path)()
    return found


def sign_in_provider(
    provider_id: str, name: str, *, start_url: str, missing: Sequence[str]
) -> SignInProvider:
    """Return a provider; `missing`: the variables without which it cannot be used."""
    names = " and ".join(missing)
    return SignInProvider(
        provider_id=provider_id,
        name=name,
        start_url="" if names else start_url,
        hint=f"{names} not set" if names else "",
    )


def active_account(user_id: UUID, *, fresh: bool = False) -> ActiveAccount | None:
    """Return the account, at most `ACCOUNT_CACHE_S` old, or None when no active one exists."""
    key = f"user:{user_id}"
    if not fresh and (cached := _cache.get(key)) is not None:
        return cached or None
    # Between the two reads of one look, a removal may have moved the user to another workspace.
    account = _read_account(user_id) or _read_account(user_id)
    _cache.set(key, account or False)
    return account


def _read_account(user_id: UUID) -> ActiveAccount | None:
    user = User.objects.active().filter(pk=user_id).first()
    if user is None:
        return None
    role = role_in(user.workspace_id, user_id)
    if role is None:
        return None
    return ActiveAccount(
        user_id=user.id,
        workspace_id=user.workspace_id,
        is_admin=user.is_admin,
        full_name=user.full_name,
        email=user.email,
        role=role,
        session_auth_hash=user.get_session_auth_hash(),
    )


def role_in(workspace_id: UUID, user_id: UUID) -> Role | None:
    """Return the user's role in the workspace; None for who is not a member."""
    roles = Membership.objects.filter(workspace_id=workspace_id, user_id=user_id)
    role = roles.values_list("role", flat=True).first()
    return None if role is None else Role(role)


def is_sign_up_open() -> bool:
    """Return whether anybody may make an account: a setting, else while no administrator exists."""
    if (decided := conf.sign_up_enabled()) is not None:
        return decided
    if _cache.get("administrator-exists"):
        return False
    exists = User.objects.filter(is_admin=True).exists()
    _cache.set("administrator-exists", exists)
    return not exists


def has_several_workspaces() -> bool:
    """Return whether what holds for every workspace concerns more than one."""
    return len(Workspace.objects.values_list("pk")[:2]) > 1


def workspace_names(ids: Collection[UUID]) -> dict[str, str]:
    """Return the names of these workspaces by id; one that is gone has none.

    Nothing is checked: the caller has found the ids in what the reader may see.
    """
    known = Workspace.objects.filter(pk__in=ids).values_list("pk", "name")
    return {str(workspace_id): name for workspace_id, name in known}


def is_revoked(jti: str, *, fresh: bool = False) -> bool:
    key = f"jti:{jti}"
    if not fresh and (cached := _cache.get(key)) is not None:
        return bool(cached)
    revoked = RevokedToken.objects.filter(jti=jti).exists()
    _cache.set(key, revoked)
    return revoked


def is_issued(jti: str, user_id: UUID, expires_at: datetime) -> bool:
    """Return whether this installation issued an access token of this id, user and end.

    Every access token of a sign-in stands beside its refresh token; those of commands do not.
    """
    key = f"issued:{jti}"
    if (issued := _cache.get(key)) is None:
        rows = RefreshToken.objects.filter(access_jti=jti)
        row = rows.values_list("family__user_id", "access_expires_at").first()
        issued = (row[0], int(row[1].timestamp())) if row else ()  # a JWT counts in seconds
        _cache.set(key, issued)
    return bool(issued == (user_id, int(expires_at.timestamp())))


def is_credential_alive(token_jti: str, session_hash: str, api_token_hash: str = "") -> bool:
    """Read from the store whether the UI session or API token exists, or the token is valid."""
    if api_token_hash:
        return ApiToken.objects.alive().filter(token_hash=api_token_hash).exists()
    if session_hash:
        return UiSession.objects.alive().filter(key_hash=session_hash).exists()
    return not is_revoked(token_jti, fresh=True)


def offers_sign_up() -> bool:
    """Return whether to show the way to a sign-up: also while the store is away."""
    try:
        return is_sign_up_open()
    except (DatabaseError, DatastoreUnavailable):
        return True


def clear_cached(user_id: UUID, *jtis: str) -> None:
    """Drop cached facts. Call it after the commit that changed them."""
    _cache.delete_many([f"user:{user_id}", *(f"jti:{jti}" for jti in jtis)])


def find_user(email: str) -> User | None:
    """Return the user with this normalized address; skip the query when it cannot be one."""
    if len(email) > MAX_EMAIL or "\0" in email:
        return None
    return User.objects.filter(email=email).first()


def email_of(user_id: UUID) -> str:
    """Return the address of a user, empty if there is none with this id."""
    return User.objects.filter(pk=user_id).values_list("email", flat=True).first() or ""


def get_user(user_id: UUID) -> User:
    """Return the user with its workspace; raise User.DoesNotExist."""
    return User.objects.select_related("workspace").get(pk=user_id)
