"""Invitations to a workspace, by a link that works once (reference: control-plane 3).

The link holds the token behind `#`, which browsers send to no server.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final
from uuid import UUID

from django.db.models import QuerySet
from django.template.loader import render_to_string

from apps.accounts import conf
from apps.accounts.domain.account_rules import is_email, normalized_email
from apps.accounts.domain.errors import Forbidden, InvitationInvalid
from apps.accounts.domain.principal import Principal
from apps.accounts.domain.roles import Role
from apps.accounts.domain.tokens import hash_token, new_opaque_token
from apps.accounts.models import Invitation, Membership, User, Workspace
from apps.accounts.selectors import clear_cached, role_in
from apps.accounts.services.rate_limits import INVITATION_MAILS, limit_rate
from apps.accounts.services.workspaces import Belonging, raise_version, require_in
from apps.operations.api import mail_server, send_mail
from apps.streams.api import unit_of_work
from kernel.clock import now
from kernel.errors import FieldError, InvalidInput, NotFound, PlatformError

_log = logging.getLogger("partita.accounts")
_MAX_OPEN: Final = 200  # of one workspace


class MailOutcome(StrEnum):
    NONE = "none"  # an invitation without an address, or no mail server is set up
    SENT = "sent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewInvitation:
    """`link` is shown once; the store holds its hash. `mail`: what became of the mail with it."""

    invitation: Invitation
    link: str = field(repr=False)
    mail: MailOutcome = MailOutcome.NONE
    mail_error: str = ""  # why it was not sent


def invite(principal: Principal, workspace_id: UUID, *, role: Role, email: str) -> NewInvitation:
    """Create an invitation, for one address or, without it, for who has the link.

    With an address and a mail server, mail the link; a failure is told, and takes nothing back.
    Raise NotFound, Forbidden (role_required), InvalidInput, TooManyAttempts.
    """
    if email:
        limit_rate(INVITATION_MAILS.bucket, principal.key, INVITATION_MAILS.per_minute)
    made = _create(principal, workspace_id, role=role, email=email)
    if not made.invitation.email or mail_server() is None:
        return made
    try:
        _mail(principal, made)
    except PlatformError as error:
        _log.warning("An invitation was not mailed: %s", error.detail)
        return replace(made, mail=MailOutcome.FAILED, mail_error=error.detail)
    return replace(made, mail=MailOutcome.SENT)


def _mail(principal: Principal, made: NewInvitation) -> None:
    workspace = Workspace.objects.get(pk=made.invitation.workspace_id)
    context = {
        "invited_by": principal.full_name,
        "workspace": workspace.name,
        "role": made.invitation.role,
        "link": made.link,
        "site": conf.site_url(),
    }
    text = render_to_string("accounts/invitation.txt", context)
    subject = f"{principal.full_name} invites you to {workspace.name}"
    send_mail(made.invitation.email, subject=" ".join(subject.split()), text=text)


@unit_of_work
def _create(principal: Principal, workspace_id: UUID, *, role: Role, email: str) -> NewInvitation:
    principal.require_session()  # a link outlives the token that made it
    require_in(principal, workspace_id, Role.ADMIN)
    email = normalized_email(email)
    if email and not is_email(email):
        detail = "must be an email address such as ada@example.org"
        error = FieldError(pointer="/email", code="invalid_value", detail=detail)
        raise InvalidInput(f"email {detail}", errors=[error])
    if _open_of(workspace_id).count() >= _MAX_OPEN:
        raise InvalidInput(f"{_MAX_OPEN} invitations are open already; revoke some first")
    token = new_opaque_token()
    invitation = Invitation.objects.create(
        workspace_id=workspace_id,
        invited_by_id=principal.user_id,
        token_hash=hash_token(token),
        email=email,
        role=role,
        expires_at=now() + conf.INVITATION_LIFE,
    )
    return NewInvitation(invitation=invitation, link=f"{conf.site_url()}/invitation#{token}")


def invitations_to(principal: Principal, workspace_id: UUID) -> Sequence[Invitation]:
    """Return the open invitations, the newest first; raise NotFound, Forbidden."""
    require_in(principal, workspace_id, Role.ADMIN)
    return list(_open_of(workspace_id).order_by("-created_at")[:_MAX_OPEN])


@unit_of_work
def revoke_invitation(principal: Principal, workspace_id: UUID, invitation_id: UUID) -> None:
    """Delete an invitation, so that its link no longer works; raise NotFound, Forbidden."""
    require_in(principal, workspace_id, Role.ADMIN)
    if not Invitation.objects.filter(pk=invitation_id, workspace_id=workspace_id).delete()[0]:
        raise NotFound("there is no such invitation")


def open_invitation(token: str, *, email: str | None = None) -> Invitation:
    """Return the invitation with its workspace and its author.

    `email`: of who wants to use it. Raise InvitationInvalid, Forbidden (invitation_not_yours).
    """
    rows = Invitation.objects.select_related("workspace", "invited_by")
    row = rows.filter(token_hash=hash_token(token), expires_at__gt=now()).first()
    if row is None or not row.invited_by.is_active:
        raise _invalid()
    if email is not None and row.email not in ("", email):
        raise Forbidden("this invitation is for another address", code="invitation_not_yours")
    return row


def accept_invitation(principal: Principal, token: str) -> Belonging:
    """Make the caller a member, who works in that workspace from now on; see `open_invitation`.

    Who is a member already keeps the role, and the invitation stays open.
    """
    principal.require_session()
    joined = _accept(principal, token)
    clear_cached(principal.user_id)
    return joined


@unit_of_work
def _accept(principal: Principal, token: str) -> Belonging:
    invitation = open_invitation(token, email=principal.email)
    raise_version(invitation.workspace_id)  # a removal at the same time comes before or after
    role = role_in(invitation.workspace_id, principal.user_id)
    if role is None:
        use_invitation(invitation, principal.user_id)
        role = Role(invitation.role)
    User.objects.filter(pk=principal.user_id).update(workspace_id=invitation.workspace_id)
    return Belonging(workspace=invitation.workspace, role=role, is_current=True)


def use_invitation(invitation: Invitation, user_id: UUID) -> None:
    """Use it up, in the caller's unit of work; of two at once, one raises InvitationInvalid."""
    if not Invitation.objects.filter(pk=invitation.pk).delete()[0]:
        raise _invalid()
    Membership.objects.create(
        user_id=user_id, workspace_id=invitation.workspace_id, role=invitation.role
    )


def _open_of(workspace_id: UUID) -> QuerySet[Invitation]:
    return Invitation.objects.alive().filter(workspace_id=workspace_id)


def _invalid() -> InvitationInvalid:
    return InvitationInvalid("the invitation was used, revoked, or has expired; ask for another")
