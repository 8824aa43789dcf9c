"""The forms of signing in, of the own account and of the team."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, cast

from django import forms

from apps.accounts.api import Role, TokenScope
from apps.console.forms.base import PageForm, id_field, text_field

DAYS: Final = ("7", "30", "90", "365")
SCOPES: Final = [
    (TokenScope.READ, "Read runs"),
    (TokenScope.RUN, "Also launch, cancel and delete runs"),
    (TokenScope.ADMIN, "All that you may do"),
]
ROLES: Final = [
    (Role.VIEWER, "Viewer", "sees runs, logs and artifacts"),
    (Role.RUNNER, "Runner", "also launches, cancels and deletes runs"),
    (Role.ADMIN, "Admin", "also invites, removes, and changes roles"),
]


def role_field() -> forms.TypedChoiceField:
    error = f"role must be one of {', '.join(Role)}"
    return forms.TypedChoiceField(
        coerce=Role,
        choices=[(role, f"{name}: {meaning}") for role, name, meaning in ROLES],
        error_messages={"required": error, "invalid_choice": error},
    )


def scope_field() -> forms.TypedChoiceField:
    error = f"scope must be one of {', '.join(TokenScope)}"
    return forms.TypedChoiceField(
        coerce=TokenScope,
        choices=SCOPES,
        initial=TokenScope.RUN,
        error_messages={"required": error, "invalid_choice": error},
    )


def days_field(initial: str) -> forms.TypedChoiceField:
    error = f"the number of days must be one of {', '.join(DAYS)}"
    return forms.TypedChoiceField(
        coerce=int,
        choices=[(days, f"{days} days") for days in DAYS],
        initial=initial,
        error_messages={"required": error, "invalid_choice": error},
    )


class SignInForm(PageForm):
    email = text_field()
    password = text_field()


class SecondFactorForm(PageForm):
    code = text_field()


class SignUpForm(PageForm):
    fullName = text_field()  # noqa: N815 - as the API names it
    email = text_field()
    password = text_field()
    invitation = text_field()


class ForgotPasswordForm(PageForm):
    email = text_field()


class ResetPasswordForm(PageForm):
    token = text_field()
    password = text_field()
    again = text_field()

    def clean(self) -> None:
        if self.cleaned_data.get("password") != self.cleaned_data.get("again"):
            raise forms.ValidationError("the two passwords differ")


class ChangePasswordForm(PageForm):
    old = text_field()
    new = text_field()
    again = text_field()

    def clean(self) -> None:
        if self.cleaned_data.get("new") != self.cleaned_data.get("again"):
            raise forms.ValidationError("the two new passwords differ")


class ApiTokenForm(PageForm):
    name = text_field()
    scope = scope_field()
    days = days_field("90")


class DeviceForm(PageForm):
    """What the token of a program that signs in by a code may do, and how long."""

    scope = scope_field()
    days = days_field("30")

    def offer(self, scopes: Collection[TokenScope]) -> None:
        """Show only these scopes."""
        scope = cast("forms.ChoiceField", self.fields["scope"])
        scope.choices = [(each, label) for each, label in SCOPES if each in scopes]


class RevokeTokenForm(PageForm):
    token = id_field("token")


class EndSignInForm(PageForm):
    sign_in = id_field("sign-in")


class CodeForm(PageForm):
    code = text_field()


class InviteForm(PageForm):
    role = role_field()
    email = text_field()


class RevokeInvitationForm(PageForm):
    invitation = id_field("invitation")


class RoleForm(PageForm):
    member = id_field("member")
    role = role_field()


class RemoveMemberForm(PageForm):
    member = id_field("member")


class SwitchWorkspaceForm(PageForm):
    workspace = id_field("workspace")


class CreateWorkspaceForm(PageForm):
    name = text_field()
