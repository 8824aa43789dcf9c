"""What administrators do to the accounts of others: add one, make administrators, mail a link."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.hashers import make_password
from django.db.models import F

from apps.accounts import conf
from apps.accounts.domain.account_rules import (
    account_errors,
    normalized_email,
    workspace_name,
    workspace_slug,
)
from apps.accounts.domain.errors import EmailTaken, Forbidden
from apps.accounts.models import User
from apps.accounts.selectors import clear_cached, find_user
from apps.accounts.services.password_reset import new_reset_link, offers_reset, request_reset
from apps.accounts.services.sign_up import create_account
from apps.streams.api import unit_of_work
from kernel.errors import InvalidInput, NotFound


def add_account(*, email: str, full_name: str, is_admin: bool = False) -> User:
    """Create an account without a password: its user sets one by a reset link.

    Raise InvalidInput, EmailTaken.
    """
    email, full_name = normalized_email(email), full_name.strip()
    if errors := account_errors(full_name=full_name, email=email):
        raise InvalidInput(f"{errors[0].pointer[1:]} {errors[0].detail}", errors=errors)
    if find_user(email):
        raise EmailTaken("an account with this email address already exists")
    user = User(email=email, full_name=full_name, is_admin=is_admin, password=make_password(None))
    return create_account(user, workspace_name(full_name), workspace_slug(full_name))


def make_administrator(user_id: UUID) -> None:
    """Let an account administrate the installation; raise NotFound."""
    _set_administrator(user_id, is_admin=True)


def withdraw_administrator(user_id: UUID, *, by: UUID) -> None:
    """Take that from an account; raise NotFound, Forbidden for one's own.

    Who withdraws stays one, so there is always an administrator. A group of the identity provider
    that makes administrators makes this account one again at its next sign-in.
    """
    if user_id == by:
        raise Forbidden("you cannot withdraw your own rights; ask another administrator")
    _set_administrator(user_id, is_admin=False, by=by)


def _set_administrator(user_id: UUID, *, is_admin: bool, by: UUID | None = None) -> None:
    _write_administrator(user_id, is_admin=is_admin, by=by)
    clear_cached(user_id)


@unit_of_work
def _write_administrator(user_id: UUID, *, is_admin: bool, by: UUID | None) -> None:
    """Of two administrators who withdraw each other's rights, the second waits and is refused.

    Not on MongoDB, where a write of the same value is none.
    """
    for key in sorted({user_id, by or user_id}):
        User.objects.filter(pk=key).update(is_active=F("is_active"))
    if by and not User.objects.active().filter(pk=by, is_admin=True).exists():
        raise Forbidden("you are no longer an administrator", code="admin_required")
    if not User.objects.filter(pk=user_id).update(is_admin=is_admin):
        raise NotFound("there is no such account")


def send_reset_link(user: User) -> str:
    """Mail a link to set a password; where no mail can be sent, return it, to be handed over.

    Return an empty text when it was mailed. Raise Forbidden where passwords are turned off or the
    account is disabled, MailUnavailable.
    """
    if not conf.password_sign_in_enabled():
        raise Forbidden("sign-in by password is turned off", code="password_auth_disabled")
    if not user.is_active:
        raise Forbidden("the account is disabled; enable it first")
    if not offers_reset():
        return new_reset_link(user)
    request_reset(user.email)
    return ""
