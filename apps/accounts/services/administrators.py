"""The first administrator, as whom the commands beside the store act."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.contrib.auth.hashers import check_password, make_password
from django.db.models import F

from apps.accounts import conf
from apps.accounts.domain.account_rules import normalized_email, workspace_slug
from apps.accounts.domain.api_tokens import TokenScope
from apps.accounts.domain.errors import EmailTaken, Forbidden
from apps.accounts.domain.principal import Principal
from apps.accounts.domain.roles import Role
from apps.accounts.domain.tokens import hash_token
from apps.accounts.models import ApiToken, User
from apps.accounts.selectors import clear_cached, find_user
from apps.accounts.services.api_tokens import replace_api_token
from apps.accounts.services.sign_up import create_account
from apps.accounts.services.token_pairs import revoke_everything
from apps.streams.api import unit_of_work
from kernel import clock
from kernel.errors import NotFound, PlatformError

ADMIN_NAME = "Administrator"
ADMIN_WORKSPACE = "Admin workspace"
_LOCAL_TOKEN_DAYS = 365  # the next start of `up` replaces it


class NoAdministrator(PlatformError):
    """Commands act as the first administrator, and the store has none yet."""

    code = "unauthenticated"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstAdministrator:
    """The account that ADMIN_EMAIL names. `created`: by the call that returned it."""

    email: str
    password: str = field(repr=False)  # the value of ADMIN_PASSWORD; empty when it is not set
    password_matches: bool  # that value is the account's password
    created: bool


def ensure_seed_admin(email: str | None = None, password: str | None = None) -> bool:
    """Create the first administrator from ADMIN_EMAIL and ADMIN_PASSWORD; True when created.

    Do nothing when one of the two is empty or the address is known: an existing account is never
    changed. The password policy is not applied.
    """
    set_email, set_password = conf.seed_admin()
    email = normalized_email(set_email if email is None else email)
    password = set_password if password is None else password
    if not email or not password or find_user(email):
        return False
    user = User(
        email=email,
        full_name=ADMIN_NAME,
        password=make_password(password),
        is_admin=True,
        email_verified_at=clock.now(),  # by who runs the installation
    )
    try:
        create_account(user, ADMIN_WORKSPACE, workspace_slug(ADMIN_WORKSPACE))
    except EmailTaken:  # another replica was faster
        return False
    return True


def operator() -> Principal:
    """Return the oldest active administrator, created first if the settings name one.

    Raise NoAdministrator.
    """
    ensure_seed_admin()
    user = User.objects.active().filter(is_admin=True).order_by("created_at").first()
    if user is None:
        raise NoAdministrator(
            "the store has no administrator yet: start `up` once, or set ADMIN_EMAIL and "
            "ADMIN_PASSWORD for the control plane"
        )
    return Principal(
        user_id=user.id,
        workspace_id=user.workspace_id,
        is_admin=True,
        full_name=user.full_name,
        email=user.email,
        role=Role.ADMIN,
        expires_at=clock.now() + timedelta(hours=1),
    )


def replace_administrator_token(email: str, *, name: str) -> str:
    """Return a new API token of this account with all its rights; that of the same name ends.

    Raise NotFound.
    """
    user = find_user(normalized_email(email))
    if user is None or not user.is_active:
        raise NotFound("there is no such account")
    made = replace_api_token(user.id, name=name, scope=TokenScope.ADMIN, days=_LOCAL_TOKEN_DAYS)
    return made.token


def revoke_local_token(token: str) -> None:
    """Revoke an API token of which `up` itself kept the text; do nothing for an unknown one."""
    ApiToken.objects.filter(token_hash=hash_token(token)).delete()


def first_administrator() -> FirstAdministrator | None:
    """Return the account that ADMIN_EMAIL names, created if necessary; None without one."""
    created = ensure_seed_admin()
    email, password = conf.seed_admin()
    user = find_user(normalized_email(email))
    if user is None or not user.is_active:
        return None
    return FirstAdministrator(
        email=user.email,
        password=password,
        password_matches=created or (bool(password) and check_password(password, user.password)),
        created=created,
    )


def disable(user_id: UUID, *, by: UUID) -> None:
    """Keep an account out, and end its sessions and tokens; raise NotFound, Forbidden."""
    if user_id == by:
        raise Forbidden("you cannot disable your own account; ask another administrator")
    _disable(user_id, by)
    clear_cached(user_id)
    revoke_everything(user_id)


@unit_of_work
def _disable(user_id: UUID, by: UUID) -> None:
    """Of two administrators who disable each other at once, the second waits and is refused.

    Not on MongoDB, where a write of the same value is none.
    """
    for key in sorted((user_id, by)):
        User.objects.filter(pk=key).update(is_active=F("is_active"))
    active = dict(User.objects.filter(pk__in=[user_id, by]).values_list("pk", "is_active"))
    if user_id not in active:
        raise NotFound("there is no such account")
    if not active.get(by):
        raise Forbidden("your account has been disabled", code="account_disabled")
    User.objects.filter(pk=user_id).update(is_active=False)


def enable(user_id: UUID) -> None:
    """Let a disabled account sign in again; raise NotFound."""
    if not User.objects.filter(pk=user_id).update(is_active=True):
        raise NotFound("there is no such account")
    clear_cached(user_id)
