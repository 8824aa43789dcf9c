"""`/api/v1/workspaces` and `/api/v1/invitations` (reference: control-plane 3)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.domain.roles import Role
from apps.accounts.rest import PrincipalMixin
from apps.accounts.rest.serializers import Instant, SparseSerializer, WorkspaceSerializer
from apps.accounts.services import invitations, workspaces
from apps.accounts.services.rate_limits import INVITATIONS, limit_by_ip, limit_rate
from apps.http.rest import StrictSerializer, StrictViewSet
from kernel.errors import NotFound

ROLES = [role.value for role in Role]
_NO_STORE = {"Cache-Control": "no-store"}


class WorkspaceInput(StrictSerializer):
    name = serializers.CharField()


class CurrentWorkspaceInput(StrictSerializer):
    workspaceId = serializers.UUIDField()


class RoleInput(StrictSerializer):
    role = serializers.ChoiceField(choices=ROLES)


class InvitationInput(RoleInput):
    email = serializers.CharField(
        required=False, help_text="who may use it; without it, whoever has the link"
    )


class InvitationTokenInput(StrictSerializer):
    token = serializers.CharField(help_text="what stands behind the # of the link")


class BelongingSerializer(WorkspaceSerializer):
    """A workspace of the caller, with the caller's role there."""

    workspaceId = serializers.UUIDField(source="workspace.id")
    slug = serializers.CharField(source="workspace.slug")
    name = serializers.CharField(source="workspace.name")
    createdAt = Instant(source="workspace.created_at")
    role = serializers.ChoiceField(choices=ROLES)
    current = serializers.BooleanField(source="is_current")


class WorkspaceList(serializers.Serializer[Any]):
    workspaces = BelongingSerializer(many=True)


class MemberSerializer(serializers.Serializer[Any]):
    userId = serializers.UUIDField(source="user_id")
    email = serializers.CharField(source="user.email")
    fullName = serializers.CharField(source="user.full_name")
    role = serializers.ChoiceField(choices=ROLES)
    joinedAt = Instant(source="created_at")


class MemberList(serializers.Serializer[Any]):
    members = MemberSerializer(many=True)


class InvitationSerializer(SparseSerializer):
    invitationId = serializers.UUIDField(source="id")
    role = serializers.ChoiceField(choices=ROLES)
    email = serializers.CharField(required=False)
    createdAt = Instant(source="created_at")
    expiresAt = Instant(source="expires_at")


class InvitationList(serializers.Serializer[Any]):
    invitations = InvitationSerializer(many=True)


class InvitationCreated(InvitationSerializer):
    link = serializers.CharField(help_text="shown once; works once, for seven days")
    mail = serializers.ChoiceField(
        choices=[outcome.value for outcome in invitations.MailOutcome],
        help_text="whether the link was mailed; `none`: without an address or a mail server",
    )
    mailError = serializers.CharField(required=False)

    def to_representation(self, instance: Any) -> dict[str, Any]:
        return {
            **InvitationSerializer(instance.invitation).data,
            "link": instance.link,
            "mail": instance.mail,
            **({"mailError": instance.mail_error} if instance.mail_error else {}),
        }


class InvitationPreview(serializers.Serializer[Any]):
    workspaceName = serializers.CharField(source="workspace.name")
    invitedBy = serializers.CharField(source="invited_by.full_name")
    role = serializers.ChoiceField(choices=ROLES)
    expiresAt = Instant(source="expires_at")


def as_uuid(text: str) -> UUID:
    """Return the id; what is none names nothing that exists."""
    try:
        return UUID(text)
    except ValueError:
        raise NotFound("there is nothing with this id") from None


class WorkspaceViewSet(PrincipalMixin, StrictViewSet):
    @extend_schema(operation_id="workspaces_list", responses=WorkspaceList)
    def list(self, request: Request) -> Response:
        found = workspaces.workspaces_of(self.principal)
        return Response(WorkspaceList({"workspaces": found}).data, headers=_NO_STORE)

    @extend_schema(
        operation_id="workspaces_create",
        request=WorkspaceInput,
        responses={201: BelongingSerializer},
    )
    def create(self, request: Request) -> Response:
        made = workspaces.create_workspace(self.principal, self.body(WorkspaceInput)["name"])
        return Response(BelongingSerializer(made).data, status=201)

    @extend_schema(
        operation_id="workspaces_switch",
        request=CurrentWorkspaceInput,
        responses=BelongingSerializer,
    )
    @action(methods=["put"], detail=False, url_path="current")
    def current(self, request: Request) -> Response:
        """The workspace that the caller works in; all of the caller's sessions follow."""
        wanted = self.body(CurrentWorkspaceInput)["workspaceId"]
        return Response(
            BelongingSerializer(workspaces.switch_workspace(self.principal, wanted)).data
        )


class MemberViewSet(PrincipalMixin, StrictViewSet):
    lookup_url_kwarg = "user_id"
    lookup_value_converter = "str"

    @extend_schema(operation_id="workspace_members_list", responses=MemberList)
    def list(self, request: Request, workspace_id: str) -> Response:
        found = workspaces.members_of(self.principal, as_uuid(workspace_id))
        return Response(MemberList({"members": found}).data, headers=_NO_STORE)

    @extend_schema(
        operation_id="workspace_members_change", request=RoleInput, responses=MemberSerializer
    )
    def update(self, request: Request, workspace_id: str, user_id: str) -> Response:
        role = Role(self.body(RoleInput)["role"])
        member = workspaces.change_role(
            self.principal, as_uuid(workspace_id), as_uuid(user_id), role
        )
        return Response(MemberSerializer(member).data)

    @extend_schema(operation_id="workspace_members_remove", responses={204: None})
    def destroy(self, request: Request, workspace_id: str, user_id: str) -> Response:
        """Remove a member; with the caller's own id, leave."""
        workspaces.remove_member(self.principal, as_uuid(workspace_id), as_uuid(user_id))
        return Response(status=204)


class InvitationViewSet(PrincipalMixin, StrictViewSet):
    lookup_url_kwarg = "invitation_id"
    lookup_value_converter = "str"

    @extend_schema(
        operation_id="workspace_invitations_list",
        responses=InvitationList,
    )
    def list(self, request: Request, workspace_id: str) -> Response:
        found = invitations.invitations_to(self.principal, as_uuid(workspace_id))
        return Response(InvitationList({"invitations": found}).data, headers=_NO_STORE)

    @extend_schema(
        operation_id="workspace_invitations_create",
        request=InvitationInput,
        responses={201: InvitationCreated},
    )
    def create(self, request: Request, workspace_id: str) -> Response:
        body = self.body(InvitationInput)
        role, email = Role(body["role"]), body.get("email", "")
        made = invitations.invite(self.principal, as_uuid(workspace_id), role=role, email=email)
        return Response(InvitationCreated(made).data, status=201, headers=_NO_STORE)

    @extend_schema(operation_id="workspace_invitations_revoke", responses={204: None})
    def destroy(self, request: Request, workspace_id: str, invitation_id: str) -> Response:
        invitations.revoke_invitation(self.principal, as_uuid(workspace_id), as_uuid(invitation_id))
        return Response(status=204)


class InvitedViewSet(PrincipalMixin, StrictViewSet):
    """What the one who was invited does."""

    @extend_schema(
        operation_id="invitations_preview",
        request=InvitationTokenInput,
        responses=InvitationPreview,
    )
    @action(methods=["post"], detail=False, authentication_classes=[], permission_classes=[])
    def preview(self, request: Request) -> Response:
        """Return the workspace, author and role of an invitation, before one signs in."""
        limit_by_ip(request, INVITATIONS)
        found = invitations.open_invitation(self.body(InvitationTokenInput)["token"])
        return Response(InvitationPreview(found).data, headers=_NO_STORE)

    @extend_schema(
        operation_id="invitations_accept",
        request=InvitationTokenInput,
        responses=BelongingSerializer,
    )
    @action(methods=["post"], detail=False)
    def accept(self, request: Request) -> Response:
        """Join the workspace, and work in it from now on."""
        limit_rate(INVITATIONS.bucket, self.principal.key, INVITATIONS.per_minute)
        token = self.body(InvitationTokenInput)["token"]
        joined = invitations.accept_invitation(self.principal, token)
        return Response(BelongingSerializer(joined).data)
