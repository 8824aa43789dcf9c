"""New accounts: by themselves, and the first administrator."""

from __future__ import annotations

from django.contrib.auth.hashers import make_password
from django.db import IntegrityError

from apps.accounts import conf
from apps.accounts.domain.errors import EmailTaken, Forbidden, WeakPassword
from apps.accounts.domain.people import (
    account_faults,
    another_slug,
    normalized_email,
    password_faults,
    workspace_name,
    workspace_slug,
)
from apps.accounts.models import User, Workspace
from apps.accounts.selectors import find_user
from apps.streams.api import unit_of_work
from kernel.errors import InvalidInput

ADMIN_NAME = "Administrator"
ADMIN_WORKSPACE = "Admin workspace"


def sign_up(*, full_name: str, email: str, password: str) -> User:
    """Make a workspace and a member of it, who is never an administrator.

    Raises Forbidden (sign_up_disabled), InvalidInput, WeakPassword, EmailTaken.
    """
    if not conf.sign_up_enabled():
        raise Forbidden("sign-up is turned off", code="sign_up_disabled")
    full_name, email = full_name.strip(), normalized_email(email)
    _check(full_name, email, password)
    if find_user(email):
        raise EmailTaken("there is already an account with this mail address")
    user = User(email=email, full_name=full_name, password=make_password(password))
    return _created(user, workspace_name(full_name), workspace_slug(full_name))


def ensure_seed_admin(email: str | None = None, password: str | None = None) -> bool:
    """Make the first administrator, by default of ADMIN_EMAIL and ADMIN_PASSWORD; True when made.

    Nothing happens when one of the two is empty or the mail is known: an existing account is never
    changed. The password policy is not applied.
    """
    set_email, set_password = conf.seed_admin()
    email = normalized_email(set_email if email is None else email)
    password = set_password if password is None else password
    if not email or not password or find_user(email):
        return False
    user = User(email=email, full_name=ADMIN_NAME, password=make_password(password), is_admin=True)
    try:
        _created(user, ADMIN_WORKSPACE, workspace_slug(ADMIN_WORKSPACE))
    except EmailTaken:  # another replica was faster
        return False
    return True


def _check(full_name: str, email: str, password: str) -> None:
    if faults := account_faults(full_name=full_name, email=email):
        raise InvalidInput(f"{faults[0].pointer[1:]} {faults[0].detail}", errors=faults)
    if faults := password_faults(password):
        raise WeakPassword(f"the password {faults[0].detail}", errors=faults)


def _created(user: User, name: str, slug: str) -> User:
    """Store both. The unique indexes decide between two at once."""
    try:
        return _store(user, name, slug)
    except IntegrityError:
        if find_user(user.email):
            raise EmailTaken("there is already an account with this mail address") from None
        return _store(user, name, another_slug(slug))


@unit_of_work
def _store(user: User, name: str, slug: str) -> User:
    if Workspace.objects.filter(slug=slug).exists():
        slug = another_slug(slug)
    user.workspace = Workspace.objects.create(name=name, slug=slug)
    user.save(force_insert=True)
    return user
