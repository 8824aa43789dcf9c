"""Accounts in the admin: people, workspaces, members, and what they are signed in with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse

from apps.accounts.domain.account_rules import account_errors, normalized_email
from apps.accounts.models import (
    ApiToken,
    CiSession,
    ExternalAccount,
    Invitation,
    Membership,
    RefreshFamily,
    UiSession,
    User,
    Workspace,
)
from apps.accounts.services.account_administration import (
    add_account,
    make_administrator,
    send_reset_link,
    withdraw_administrator,
)
from apps.accounts.services.administrators import disable, enable
from apps.accounts.services.authentication import require_principal
from apps.accounts.services.ci_sessions import end_ci_session
from apps.accounts.services.second_factor import remove_second_factor_of
from apps.accounts.services.token_pairs import revoke_everything
from apps.accounts.services.workspaces import remove_member
from apps.operations.admin import RowAdmin, confirm_action, list_link
from kernel.errors import PlatformError


class AddAccountForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's has no []
    """An account without a password; its user sets one by the link that adding it sends."""

    class Meta:
        model = User
        fields = ("email", "full_name", "is_admin")

    def clean_email(self) -> str:
        return normalized_email(self.cleaned_data["email"])

    def clean(self) -> Any:
        facts = super().clean() or {}
        errors = account_errors(full_name=facts.get("full_name", ""), email=facts.get("email", ""))
        names = {"/fullName": "full_name", "/email": "email"}
        for error in errors:
            if (name := names[error.pointer]) not in self.errors:
                self.add_error(name, error.detail)
        return facts


@admin.register(User)
class UserAdmin(RowAdmin):
    list_display = ("email", "full_name", "workspace", "is_admin", "is_active", "last_login")
    list_filter = ("is_admin", "is_active")
    search_fields = ("email", "full_name")
    ordering = ("email",)
    hidden_fields = ("password",)
    actions = (
        "disable",
        "enable",
        "sign_out_everywhere",
        "remove_second_factor",
        "send_reset_link",
        "make_administrator",
        "withdraw_administrator",
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.is_active and request.user.is_superuser

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        if obj is None:
            return [(None, {"fields": AddAccountForm.Meta.fields})]
        return super().get_fieldsets(request, obj)

    def get_form(
        self, request: HttpRequest, obj: User | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        if obj is None:
            return AddAccountForm
        return super().get_form(request, obj, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: User, form: Any, *_: object) -> None:
        """Add an account; there is no form that changes one."""
        facts = {name: form.cleaned_data[name] for name in AddAccountForm.Meta.fields}
        obj.pk = add_account(**facts).pk
        try:
            self._send_reset_link(request, obj)
        except PlatformError as error:
            messages.warning(request, f"{obj}: no link to set a password was sent: {error.detail}")

    def _send_reset_link(self, request: HttpRequest, user: User) -> str:
        """Mail the link, or show it to this administrator alone: it stands in no log."""
        if link := send_reset_link(user):
            words = f"no mail server is set up; hand this link to {user}, it works once: {link}"
            messages.warning(request, words)
            return "got a link to set a password, handed over by the administrator"
        return "is sent a link to set a password"

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
            disable(user.pk, by=require_principal(request).user_id)
            return "disabled"

        question = "Disable these accounts?"
        return confirm_action(self, request, rows, question=question, action="disable", do=do)

    @admin.action(description="Enable again", permissions=["view"])
    def enable(self, request: HttpRequest, rows: QuerySet[User]) -> HttpResponse | None:
        def do(user: Any) -> str:
            enable(user.pk)
            return "enabled"

        question = "Enable these accounts again?"
        return confirm_action(self, request, rows, question=question, action="enable", do=do)

    @admin.action(description="Sign out everywhere", permissions=["view"])
    def sign_out_everywhere(
        self, request: HttpRequest, rows: QuerySet[User]
    ) -> HttpResponse | None:
        def do(user: Any) -> str:
            revoke_everything(user.pk)
            return "signed out everywhere"

        question = "End all sessions and tokens of these accounts?"
        return confirm_action(
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
        return confirm_action(
            self, request, rows, question=question, action="remove_second_factor", do=do
        )

    @admin.action(description="Send a link to set a password", permissions=["view"])
    def send_reset_link(self, request: HttpRequest, rows: QuerySet[User]) -> HttpResponse | None:
        def do(user: Any) -> str:
            return self._send_reset_link(request, user)

        question = "Send these accounts a link to set a new password?"
        return confirm_action(
            self, request, rows, question=question, action="send_reset_link", do=do
        )

    @admin.action(description="Make administrator of the installation", permissions=["view"])
    def make_administrator(self, request: HttpRequest, rows: QuerySet[User]) -> HttpResponse | None:
        def do(user: Any) -> str:
            make_administrator(user.pk)
            return "is an administrator of the installation"

        question = "Make these accounts administrators? They can see and change everything."
        return confirm_action(
            self, request, rows, question=question, action="make_administrator", do=do
        )

    @admin.action(description="Withdraw administrator rights", permissions=["view"])
    def withdraw_administrator(
        self, request: HttpRequest, rows: QuerySet[User]
    ) -> HttpResponse | None:
        def do(user: Any) -> str:
            withdraw_administrator(user.pk, by=require_principal(request).user_id)
            return "is no longer an administrator of the installation"

        question = "Withdraw the administrator rights of these accounts?"
        return confirm_action(
            self, request, rows, question=question, action="withdraw_administrator", do=do
        )


@admin.register(Workspace)
class WorkspaceAdmin(RowAdmin):
    list_display = ("name", "slug", "members", "created_at")
    search_fields = ("name", "slug")
    ordering = ("slug",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Workspace]:
        rows: QuerySet[Workspace] = super().get_queryset(request)
        return rows.annotate(member_count=Count("memberships"))

    @admin.display(ordering="member_count")
    def members(self, row: Workspace) -> int:
        return row.member_count  # type: ignore[attr-defined,no-any-return]  # by get_queryset

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
    actions = ("remove_from_workspace",)

    @admin.action(description="Remove from the workspace", permissions=["view"])
    def remove_from_workspace(
        self, request: HttpRequest, rows: QuerySet[Membership]
    ) -> HttpResponse | None:
        def do(row: Any) -> str:
            remove_member(require_principal(request), row.workspace_id, row.user_id)
            return "removed from the workspace"

        rows = rows.select_related("user", "workspace")
        question = "Remove these members from their workspaces? Their runs stay."
        return confirm_action(
            self, request, rows, question=question, action="remove_from_workspace", do=do
        )


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


@admin.register(CiSession)
class CiSessionAdmin(RowAdmin):
    list_display = ("job", "rule_name", "workspace", "role", "created_at", "expires_at", "ended_at")
    list_filter = ("rule_name", "role")
    list_select_related = ("workspace",)
    search_fields = ("job", "rule_name", "workspace__name")
    hidden_fields = ("token_hash", "job_token_hash", "rule_digest")
    ordering = ("-created_at",)
    actions = ("end_sessions",)

    def related_rows(self, row: CiSession) -> Iterable[str]:
        yield list_link("executions.execution", "runs", owner_id=row.owner_id)

    @admin.action(description="End", permissions=["view"])
    def end_sessions(self, request: HttpRequest, rows: QuerySet[CiSession]) -> HttpResponse | None:
        def do(row: Any) -> str:
            end_ci_session(row.token_hash)
            return "ended"

        question = "End these CI sessions? Their runs continue."
        return confirm_action(self, request, rows, question=question, action="end_sessions", do=do)


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
