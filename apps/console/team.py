"""The pages of a workspace's members and of an invitation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.api import (
    NewInvitation,
    Principal,
    Role,
    change_role,
    create_workspace,
    invitations_to,
    invite,
    members_of,
    offers_sign_up,
    principal_of,
    remove_member,
    revoke_invitation,
    switch_workspace,
    workspaces_of,
)
from apps.console.forms.accounts import (
    ROLES,
    CreateWorkspaceForm,
    InviteForm,
    RemoveMemberForm,
    RevokeInvitationForm,
    RoleForm,
    SwitchWorkspaceForm,
)
from apps.console.services import with_page_headers
from apps.console.views import page
from apps.operations.api import DatastoreUnavailable
from kernel.errors import InvalidInput, PlatformError
from kernel.problems import PROBLEMS


@require_safe
@page
def team(request: HttpRequest, principal: Principal) -> HttpResponse:
    return _team(request, principal)


@require_POST
@page
def change(request: HttpRequest, principal: Principal, action: str) -> HttpResponse:
    """Do what a form of the page asks for, and show the page again."""
    form_class, use_case = _ACTIONS[action]
    form = form_class(request.POST)
    try:
        _require_same_workspace(principal, request)
        form.require_valid()
        made = use_case(principal, form.cleaned_data)
    except DatastoreUnavailable:
        raise
    except PlatformError as error:
        return _team(request, principal, error=error)
    if made:
        return _team(request, principal, made=made)
    return HttpResponseRedirect(reverse("console:team"), status=303)


@require_safe
@ensure_csrf_cookie
def invitation(request: HttpRequest) -> HttpResponse:
    """Render the page that a link of an invitation opens; its script reads the token behind `#`."""
    context = {"principal": principal_of(request), "offers_sign_up": offers_sign_up()}
    return with_page_headers(render(request, "console/invitation.html", context))


def _team(
    request: HttpRequest,
    principal: Principal,
    *,
    error: PlatformError | None = None,
    made: NewInvitation | None = None,
) -> HttpResponse:
    workspaces = workspaces_of(principal)
    may_manage = principal.has_role(Role.ADMIN)
    context = {
        "workspaces": workspaces,
        "current": next((one for one in workspaces if one.is_current), None),
        "members": members_of(principal, principal.workspace_id),
        "invitations": invitations_to(principal, principal.workspace_id) if may_manage else [],
        "may_manage": may_manage,
        "roles": ROLES,
        "invite_form": InviteForm(auto_id="", initial={"role": Role.RUNNER}),
        "error": error,
        "made": made,
        "principal": principal,
        "nav": "team",
    }
    status = PROBLEMS[error.problem_code] if error else 200
    return render(request, "console/team.html", context, status=status)


def _require_same_workspace(principal: Principal, request: HttpRequest) -> None:
    """Refuse a form that an older tab shows of another workspace."""
    if request.POST.get("in", "") not in ("", str(principal.workspace_id)):
        raise InvalidInput(
            "you have switched to another workspace since; nothing was changed. This is its team"
        )


def _invite(principal: Principal, given: Mapping[str, Any]) -> NewInvitation:
    return invite(principal, principal.workspace_id, role=given["role"], email=given["email"])


def _revoke(principal: Principal, given: Mapping[str, Any]) -> None:
    revoke_invitation(principal, principal.workspace_id, given["invitation"])


def _change_role(principal: Principal, given: Mapping[str, Any]) -> None:
    change_role(principal, principal.workspace_id, given["member"], given["role"])


def _remove(principal: Principal, given: Mapping[str, Any]) -> None:
    remove_member(principal, principal.workspace_id, given["member"])


def _switch(principal: Principal, given: Mapping[str, Any]) -> None:
    switch_workspace(principal, given["workspace"])


def _create(principal: Principal, given: Mapping[str, Any]) -> None:
    made = create_workspace(principal, given["name"])
    switch_workspace(principal, made.workspace.id)


_ACTIONS: Final = {
    "invite": (InviteForm, _invite),
    "revoke": (RevokeInvitationForm, _revoke),
    "role": (RoleForm, _change_role),
    "remove": (RemoveMemberForm, _remove),
    "switch": (SwitchWorkspaceForm, _switch),
    "create": (CreateWorkspaceForm, _create),
}
ACTIONS: Final = tuple(_ACTIONS)
