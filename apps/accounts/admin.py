"""Accounts in the admin: people, workspaces, members, and what they are signed in with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from apps.accounts.models import (
    ApiToken,
    ExternalAccount,
    Invitation,
    Membership,
    RefreshFamily,
    UiSession,
    User,
    Workspace,
)
from apps.accounts.services.administrators import disable, enable
from apps.accounts.services.authentication import signed_in
from apps.accounts.services.second_factor import remove_second_factor_of
from apps.accounts.services.token_pairs import revoke_everything
from apps.operations.admin import RowAdmin, confirmed, list_link


@admin.register(User)
class UserAdmin(RowAdmin):
    list_display = ("email", "full_name", "workspace", "is_admin", "is_active", "last_login")
    list_filter = ("is_admin", "is_active")
    search_fields = ("email", "full_name")
    ordering = ("email",)
    hidden_fields = ("password",)
    actions = ("disable", "enable", "sign_out_everywhere", "remove_second_factor")

    def related_rows(self, row: User) -> Iterable[str]:
        for model, text in (
            ("membership", "memberships"),
            ("uisession", "sessions"),
            ("refreshfamily", "refresh families"),
            ("apitoken", "API tokens"),
            ("externalaccount", "external accounts"),
        ):
            yield list_link(f"accounts.{model}", text, user__id__exact=row.pk)
        yield list_link("executions.execution", "runs", owner_id=row.pk)
        yield list_link("system.auditrecord", "audit records", user_id=row.pk)

    @admin.action(description="Disable: no sign-in, signed out everywhere", permissions=["view"])
    def disable(self, request: HttpRequest, rows: QuerySet[User]) -> HttpResponse | None:
        def do(user: Any) -> str:
            disable(user.pk, by=signed_in(request).user_id)
            return "disabled"

        question = "Disable these accounts?"
        return confirmed(self, request, rows, question=question, action="disable", do=do)

    @admin.action(description="Enable again", permissions=["view"])
    def enable(self, request: HttpRequest, rows: QuerySet[User]) -> HttpResponse | None:
        def do(user: Any) -> str:
            enable(user.pk)
            return "enabled"

        question = "Enable these accounts again?"
        return confirmed(self, request, rows, question=question, action="enable", do=do)

    @admin.action(description="Sign out everywhere", permissions=["view"])
    def sign_out_everywhere(
        self, request: HttpRequest, rows: QuerySet[User]
    ) -> HttpResponse | None:
        def do(user: Any) -> str:
            revoke_everything(user.pk)
            return "signed out everywhere"

        question = "End all sessions and tokens of these accounts?"
        return confirmed(
            self, request, rows, question=question, action="sign_out_everywhere", do=do
        )

    @admin.action(description="Remove the second factor", permissions=["view"])
    def remove_second_factor(
        self, request: HttpRequest, rows: QuerySet[User]
    ) -> HttpResponse | None:
        def do(user: Any) -> str:
            remove_second_factor_of(user.pk)
            return "without a second factor"

        question = "Remove the second factor of these accounts? The password alone signs in then."
        return confirmed(
            self, request, rows, question=question, action="remove_second_factor", do=do
        )


@admin.register(Workspace)
class WorkspaceAdmin(RowAdmin):
    list_display = ("name", "slug", "created_at")
    search_fields = ("name", "slug")
    ordering = ("slug",)

    def related_rows(self, row: Workspace) -> Iterable[str]:
        yield list_link("accounts.membership", "members", workspace__id__exact=row.pk)
        yield list_link("accounts.invitation", "invitations", workspace__id__exact=row.pk)
        yield list_link("executions.execution", "runs", workspace_id=row.pk)


@admin.register(Membership)
class MembershipAdmin(RowAdmin):
    list_display = ("user", "workspace", "role", "created_at")
    list_filter = ("role",)
    list_select_related = ("user", "workspace")
    search_fields = ("user__email", "workspace__name")


@admin.register(Invitation)
class InvitationAdmin(RowAdmin):
    list_display = ("workspace", "role", "email", "invited_by", "expires_at")
    list_filter = ("role",)
    list_select_related = ("workspace", "invited_by")
    search_fields = ("email", "workspace__name")
    hidden_fields = ("token_hash",)


@admin.register(UiSession)
class UiSessionAdmin(RowAdmin):
    list_display = ("id", "user", "created_at", "expires_at")
    list_select_related = ("user",)
    search_fields = ("user__email",)
    hidden_fields = ("key_hash", "data")
    ordering = ("-created_at",)


@admin.register(ApiToken)
class ApiTokenAdmin(RowAdmin):
    list_display = ("name", "user", "scope", "created_at", "expires_at", "last_used_at")
    list_filter = ("scope",)
    list_select_related = ("user",)
    search_fields = ("name", "user__email")
    hidden_fields = ("token_hash",)
    ordering = ("-created_at",)


@admin.register(ExternalAccount)
class ExternalAccountAdmin(RowAdmin):
    list_display = ("subject", "provider", "user", "grants_admin", "created_at", "last_used_at")
    list_select_related = ("user",)
    search_fields = ("user__email", "subject")
    ordering = ("-created_at",)


@admin.register(RefreshFamily)
class RefreshFamilyAdmin(RowAdmin):
    list_display = ("id", "user", "provider", "created_at", "expires_at", "revoked_at")
    list_select_related = ("user",)
    search_fields = ("user__email",)
    ordering = ("-created_at",)
