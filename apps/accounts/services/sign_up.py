"""New accounts, each with a workspace of its own."""

from __future__ import annotations

from django.contrib.auth.hashers import make_password
from django.db import IntegrityError

from apps.accounts.domain.account_rules import (
    account_errors,
    alternative_slug,
    normalized_email,
    password_errors,
    workspace_name,
    workspace_slug,
)
from apps.accounts.domain.errors import EmailTaken, Forbidden, WeakPassword
from apps.accounts.domain.roles import Role
from apps.accounts.models import Invitation, Membership, User
from apps.accounts.selectors import find_user, is_sign_up_open
from apps.accounts.services.invitations import open_invitation, use_invitation
from apps.accounts.services.workspaces import new_workspace
from apps.streams.api import unit_of_work
from kernel.errors import InvalidInput


def sign_up(*, full_name: str, email: str, password: str, invitation: str = "") -> User:
    """Create an account, which is never an administrator of the installation, and its workspace.

    With the token of an invitation, the account joins the workspace that it is for, even where
    sign-up is closed. Raise InvitationInvalid, Forbidden (sign_up_disabled, invitation_not_yours),
    InvalidInput, WeakPassword, EmailTaken.
    """
    full_name, email = full_name.strip(), normalized_email(email)
    invited = open_invitation(invitation, email=email) if invitation else None
    if invited is None and not is_sign_up_open():
        raise Forbidden(
            "sign-up is closed here; ask for an invitation to a workspace", code="sign_up_disabled"
        )
    if errors := account_errors(full_name=full_name, email=email):
        raise InvalidInput(f"{errors[0].pointer[1:]} {errors[0].detail}", errors=errors)
    if errors := password_errors(password):
        raise WeakPassword(f"the password {errors[0].detail}", errors=errors)
    if find_user(email):
        raise _email_taken()
    user = User(email=email, full_name=full_name, password=make_password(password))
    if invited is not None:
        return create_invited_account(user, invited)
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
    user.workspace = new_workspace(workspace, slug)
    user.save(force_insert=True)
    Membership.objects.create(user=user, workspace=user.workspace, role=Role.ADMIN)
    return user


@unit_of_work
def create_invited_account(user: User, invitation: Invitation) -> User:
    """Store the user as a member, and use the invitation up; raise EmailTaken."""
    user.workspace = invitation.workspace
    try:
        user.save(force_insert=True)
    except IntegrityError:
        raise _email_taken() from None
    use_invitation(invitation, user.id)
    return user


def _email_taken() -> EmailTaken:
    return EmailTaken("an account with this email address already exists")
