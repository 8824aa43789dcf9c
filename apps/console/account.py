"""The page of the caller's own account."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.api import (
    Principal,
    api_tokens_of,
    begin_second_factor,
    change_password_session,
    confirm_second_factor,
    create_api_token,
    end_sign_in,
    pending_second_factor,
    remove_second_factor,
    replace_recovery_codes,
    revoke_api_token,
    revoke_everything,
    second_factor_of,
    sign_ins_of,
)
from apps.console.forms.accounts import (
    ApiTokenForm,
    ChangePasswordForm,
    CodeForm,
    EndSignInForm,
    RevokeTokenForm,
)
from apps.console.views import page
from apps.operations.api import DatastoreUnavailable
from kernel.errors import PlatformError
from kernel.problems import PROBLEMS, problem_headers


@require_safe
@page
def account(request: HttpRequest, principal: Principal) -> HttpResponse:
    return _account(request, principal)


@require_POST
@page
def change_password(request: HttpRequest, principal: Principal) -> HttpResponse:
    form = ChangePasswordForm(request.POST)
    try:
        form.require_valid()
        old, new = form.cleaned_data["old"], form.cleaned_data["new"]
        change_password_session(request, principal, old=old, new=new)
    except DatastoreUnavailable:
        raise
    except PlatformError as error:
        return _account(request, principal, error=error)
    return _account(request, principal, is_changed=True)


@require_POST
@page
def sign_out_everywhere(_request: HttpRequest, principal: Principal) -> HttpResponse:
    revoke_everything(principal.user_id)
    return HttpResponseRedirect(reverse("console:sign-in"), status=303)


@require_POST
@page
def create_token(request: HttpRequest, principal: Principal) -> HttpResponse:
    form = ApiTokenForm(request.POST)
    try:
        form.require_valid()
        made = create_api_token(principal, **form.cleaned_data)
    except DatastoreUnavailable:
        raise
    except PlatformError as error:
        return _account(request, principal, error=error)
    return _account(request, principal, token=made.token)


@require_POST
@page
def revoke_token(request: HttpRequest, principal: Principal) -> HttpResponse:
    form = RevokeTokenForm(request.POST)
    try:
        form.require_valid()
        revoke_api_token(principal, form.cleaned_data["token"])
    except DatastoreUnavailable:
        raise
    except PlatformError as error:
        return _account(request, principal, error=error)
    return HttpResponseRedirect(reverse("console:account"), status=303)


@require_POST
@page
def change_second_factor(request: HttpRequest, principal: Principal, action: str) -> HttpResponse:
    """Begin, confirm or remove the second factor, or replace its recovery codes."""
    form = CodeForm(request.POST)
    try:
        form.require_valid()
        codes = _SECOND_FACTOR[action](principal, form.cleaned_data["code"])
    except DatastoreUnavailable:
        raise
    except PlatformError as error:
        return _account(request, principal, error=error)
    return _account(request, principal, recovery_codes=codes)


@require_POST
@page
def end_one_sign_in(request: HttpRequest, principal: Principal) -> HttpResponse:
    form = EndSignInForm(request.POST)
    try:
        form.require_valid()
        end_sign_in(principal, form.cleaned_data["sign_in"])
    except DatastoreUnavailable:
        raise
    except PlatformError as error:
        return _account(request, principal, error=error)
    return HttpResponseRedirect(reverse("console:account"), status=303)


def _begin(principal: Principal, _code: str) -> list[str]:
    begin_second_factor(principal)
    return []


def _remove(principal: Principal, code: str) -> list[str]:
    remove_second_factor(principal, code)
    return []


_SECOND_FACTOR: Final = {
    "begin": _begin,
    "confirm": confirm_second_factor,
    "codes": replace_recovery_codes,
    "remove": _remove,
}
SECOND_FACTOR_ACTIONS: Final = tuple(_SECOND_FACTOR)


def _account(
    request: HttpRequest,
    principal: Principal,
    *,
    error: PlatformError | None = None,
    is_changed: bool = False,
    token: str = "",
    recovery_codes: Sequence[str] = (),
) -> HttpResponse:
    context = {
        "principal": principal,
        "error": error,
        "is_changed": is_changed,
        "token": token,
        "tokens": api_tokens_of(principal),
        "token_form": ApiTokenForm(auto_id=""),
        "recovery_codes": recovery_codes,
        "second_factor": second_factor_of(principal.user_id),
        "setup": pending_second_factor(principal),
        "sign_ins": sign_ins_of(principal),
    }
    status = PROBLEMS[error.problem_code] if error else 200
    response = render(request, "console/account.html", context, status=status)
    for name, value in (problem_headers(error) if error else {}).items():
        response[name] = value
    return response
