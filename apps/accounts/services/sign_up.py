"""New accounts, each with a workspace of its own."""

from __future__ import annotations

from django.contrib.auth.hashers import make_password
from django.db import IntegrityError

from apps.accounts import conf
from apps.accounts.domain.account_rules import (
    account_errors,
    alternative_slug,
    normalized_email,
    password_errors,
    workspace_name,
    workspace_slug,
)
from apps.accounts.domain.errors import EmailTaken, Forbidden, WeakPassword
from apps.accounts.models import User, Workspace
from apps.accounts.selectors import find_user
from apps.streams.api import unit_of_work
from kernel.errors import InvalidInput


def sign_up(*, full_name: str, email: str, password: str) -> User:
    """Create a workspace and a member of it, who is never an administrator.

    Raise Forbidden (sign_up_disabled), InvalidInput, WeakPassword, EmailTaken.
    """
    if not conf.sign_up_enabled():
        raise Forbidden("sign-up is turned off", code="sign_up_disabled")
    full_name, email = full_name.strip(), normalized_email(email)
    if errors := account_errors(full_name=full_name, email=email):
        raise InvalidInput(f"{errors[0].pointer[1:]} {errors[0].detail}", errors=errors)
    if errors := password_errors(password):
        raise WeakPassword(f"the password {errors[0].detail}", errors=errors)
    if find_user(email):
        raise _email_taken()
    user = User(email=email, full_name=full_name, password=make_password(password))
    return create_account(user, workspace_name(full_name), workspace_slug(full_name))


def create_account(user: User, workspace: str, slug: str) -> User:
    """Store the user and a workspace with this name; raise EmailTaken.

    The unique indexes decide between two concurrent calls.
    """
    try:
        return _store(user, workspace, slug)
    except IntegrityError:
        if find_user(user.email):
            raise _email_taken() from None
        return _store(user, workspace, alternative_slug(slug))


@unit_of_work
def _store(user: User, workspace: str, slug: str) -> User:
    if Workspace.objects.filter(slug=slug).exists():
        slug = alternative_slug(slug)
    user.workspace = Workspace.objects.create(name=workspace, slug=slug)
    user.save(force_insert=True)
    return user


def _email_taken() -> EmailTaken:
    return EmailTaken("an account with this email address already exists")
