"""Workspaces and their members (reference: control-plane 3).

A change of members raises the workspace's version, so that two changes at once are decided one
after the other and a workspace never loses its last administrator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db.models import F

from apps.accounts.domain.account_rules import (
    alternative_slug,
    name_errors,
    workspace_name,
    workspace_slug,
)
from apps.accounts.domain.errors import LastWorkspaceAdmin
from apps.accounts.domain.principal import Principal
from apps.accounts.domain.roles import Role
from apps.accounts.models import Invitation, Membership, User, Workspace
from apps.accounts.selectors import clear_cached, role_in
from apps.streams.api import LostRace, unit_of_work
from kernel.errors import InvalidInput, NotFound

_MAX_OWN: Final = 50  # workspaces of one user


@dataclass(frozen=True, slots=True, kw_only=True)
class Belonging:
    """One of the caller's workspaces, with the role there."""

    workspace: Workspace
    role: Role
    is_current: bool


def new_workspace(name: str, slug: str) -> Workspace:
    """Store a workspace; call it in a unit of work."""
    if Workspace.objects.filter(slug=slug).exists():
        slug = alternative_slug(slug)
    return Workspace.objects.create(name=name, slug=slug)


def workspaces_of(principal: Principal) -> list[Belonging]:
    """Return the workspaces that the caller is a member of, the oldest membership first."""
    rows = Membership.objects.select_related("workspace").filter(user_id=principal.user_id)
    return [
        Belonging(
            workspace=row.workspace,
            role=Role(row.role),
            is_current=row.workspace_id == principal.workspace_id,
        )
        for row in rows.order_by("created_at")[: 4 * _MAX_OWN]
    ]


@unit_of_work
def create_workspace(principal: Principal, name: str) -> Belonging:
    """Create a workspace with the caller as its administrator; raise InvalidInput."""
    principal.require_session()
    name = name.strip()
    if errors := name_errors(name):
        raise InvalidInput(f"name {errors[0].detail}", errors=errors)
    if Membership.objects.filter(user_id=principal.user_id).count() >= _MAX_OWN:
        raise InvalidInput(f"you are a member of {_MAX_OWN} workspaces already; leave one first")
    workspace = new_workspace(name, workspace_slug(name))
    Membership.objects.create(user_id=principal.user_id, workspace=workspace, role=Role.ADMIN)
    return Belonging(workspace=workspace, role=Role.ADMIN, is_current=False)


def switch_workspace(principal: Principal, workspace_id: UUID) -> Belonging:
    """Make it the workspace that the caller works in, everywhere; raise NotFound."""
    principal.require_session()
    belonging = _switch(principal, workspace_id)
    clear_cached(principal.user_id)
    return belonging


@unit_of_work
def _switch(principal: Principal, workspace_id: UUID) -> Belonging:
    workspace = raise_version(workspace_id)  # a removal at the same time comes before or after
    role = role_in(workspace_id, principal.user_id)
    if role is None:
        raise no_workspace()
    User.objects.filter(pk=principal.user_id).update(workspace_id=workspace_id)
    return Belonging(workspace=workspace, role=role, is_current=True)


def members_of(principal: Principal, workspace_id: UUID) -> Sequence[Membership]:
    """Return the members with their users, the oldest first; raise NotFound."""
    _require(principal, workspace_id, Role.VIEWER)
    rows = Membership.objects.select_related("user").filter(workspace_id=workspace_id)
    return list(rows.order_by("created_at")[:1000])


def change_role(principal: Principal, workspace_id: UUID, user_id: UUID, role: Role) -> Membership:
    """Change a member's role; raise NotFound, Forbidden, LastWorkspaceAdmin."""
    member = _change_role(principal, workspace_id, user_id, role)
    clear_cached(user_id)
    return member


@unit_of_work
def _change_role(principal: Principal, workspace_id: UUID, user_id: UUID, role: Role) -> Membership:
    raise_version(workspace_id)
    _require(principal, workspace_id, Role.ADMIN)
    member = _member(workspace_id, user_id)
    if role != Role.ADMIN:
        _keep_an_administrator(member)
        _withdraw_invitations(member)
    member.role = role
    member.save(update_fields=["role"])
    return member


def remove_member(principal: Principal, workspace_id: UUID, user_id: UUID) -> None:
    """Remove a member, or leave; raise NotFound, Forbidden, LastWorkspaceAdmin.

    Who worked in this workspace works in another one of theirs from then on, in a new one if there
    is none. Runs stay.
    """
    _remove_member(principal, workspace_id, user_id)
    clear_cached(user_id)


@unit_of_work
def _remove_member(principal: Principal, workspace_id: UUID, user_id: UUID) -> None:
    if user_id == principal.user_id:
        principal.require_session()
    # of two removals from two workspaces at once, the second waits and sees what the first did
    User.objects.filter(pk=user_id).update(workspace_id=F("workspace_id"))
    raise_version(workspace_id)
    _require(principal, workspace_id, Role.VIEWER if user_id == principal.user_id else Role.ADMIN)
    member = _member(workspace_id, user_id)
    _keep_an_administrator(member)
    _withdraw_invitations(member)
    member.delete()
    user = User.objects.get(pk=user_id)
    if user.workspace_id != workspace_id:
        return
    left = Membership.objects.filter(user_id=user_id).order_by("created_at").first()
    if left is None:
        own = new_workspace(workspace_name(user.full_name), workspace_slug(user.full_name))
        left = Membership.objects.create(user=user, workspace=own, role=Role.ADMIN)
    User.objects.filter(pk=user_id).update(workspace_id=left.workspace_id)


def require_in(principal: Principal, workspace_id: UUID, role: Role) -> None:
    """Raise NotFound for who is not a member, Forbidden (role_required) for who has less."""
    _require(principal, workspace_id, role)


def no_workspace() -> NotFound:
    return NotFound("there is no such workspace")


def _require(principal: Principal, workspace_id: UUID, role: Role) -> None:
    if principal.is_admin:
        if not Workspace.objects.filter(pk=workspace_id).exists():
            raise no_workspace()
        return
    held = role_in(workspace_id, principal.user_id)
    if held is None:
        raise no_workspace()
    principal.with_role(held).require(role)


def _member(workspace_id: UUID, user_id: UUID) -> Membership:
    rows = Membership.objects.select_related("user")
    member = rows.filter(workspace_id=workspace_id, user_id=user_id).first()
    if member is None:
        raise NotFound("there is no such member")
    return member


def _keep_an_administrator(member: Membership) -> None:
    admins = Membership.objects.filter(
        workspace_id=member.workspace_id, role=Role.ADMIN, user__is_active=True
    )
    if member.role == Role.ADMIN and not admins.exclude(pk=member.pk).exists():
        raise LastWorkspaceAdmin(
            "this is the workspace's only administrator; make another member one first"
        )


def _withdraw_invitations(member: Membership) -> None:
    """Delete what a member invited as an administrator: links do not outlive that."""
    own = Invitation.objects.filter(workspace_id=member.workspace_id)
    own.filter(invited_by_id=member.user_id).delete()


def raise_version(workspace_id: UUID) -> Workspace:
    workspace = Workspace.objects.filter(pk=workspace_id).first()
    if workspace is None:
        raise no_workspace()
    same = Workspace.objects.filter(pk=workspace_id, version=workspace.version)
    if not same.update(version=F("version") + 1):
        raise LostRace
    return workspace
