"""Who acts when a command is run beside the store: the operator of the machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from django.contrib.auth.hashers import check_password

from apps.accounts import conf
from apps.accounts.domain.people import normalized_email
from apps.accounts.domain.principal import Principal
from apps.accounts.models import User
from apps.accounts.selectors import find_user
from apps.accounts.services.sign_up import ensure_seed_admin
from kernel import clock
from kernel.errors import PlatformError


class NoAdministrator(PlatformError):
    """Commands act as the first administrator, and the store has none yet."""

    code = "unauthenticated"


def operator() -> Principal:
    """The principal of the oldest active administrator, made first where the settings name one.

    Raises NoAdministrator.
    """
    ensure_seed_admin()
    user = User.objects.filter(is_admin=True, is_active=True).order_by("created_at").first()
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
        expires_at=clock.now() + timedelta(hours=1),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstAdministrator:
    """The account that ADMIN_EMAIL names, for `up` to show; `made` by the call that found it."""

    email: str
    password: str = field(repr=False)  # what ADMIN_PASSWORD says; empty when it is not set
    password_holds: bool  # that is the account's password
    made: bool


def first_administrator() -> FirstAdministrator | None:
    """Return the account, made first where the settings name one; None when there is none."""
    made = ensure_seed_admin()
    email, password = conf.seed_admin()
    user = find_user(normalized_email(email))
    if user is None or not user.is_active:
        return None
    holds = bool(password) and check_password(password, user.password)
    return FirstAdministrator(email=user.email, password=password, password_holds=holds, made=made)
