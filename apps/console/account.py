"""The page of the caller's own account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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

_Shown = Mapping[str, object] | None  # once, after an action; None: the page is fetched anew


@require_safe
@page
def account(request: HttpRequest, principal: Principal) -> HttpResponse:
    return _account(request, principal)


@require_POST
@page
def change(request: HttpRequest, principal: Principal, action: str) -> HttpResponse:
    """Do what a form of the page asks for, and show the page again, with what is shown once."""
    _path, form_class, use_case = _ACTIONS[action]
    form = form_class(request.POST)
    try:
        form.require_valid()
        shown = use_case(request, principal, form.cleaned_data)
    except DatastoreUnavailable:
        raise
    except PlatformError as error:
        return _account(request, principal, error=error)
    if shown is None:
        return HttpResponseRedirect(reverse("console:account"), status=303)
    return _account(request, principal, shown=shown)


@require_POST
@page
def sign_out_everywhere(_request: HttpRequest, principal: Principal) -> HttpResponse:
    revoke_everything(principal.user_id)
    return HttpResponseRedirect(reverse("console:sign-in"), status=303)


def _account(
    request: HttpRequest,
    principal: Principal,
    *,
    error: PlatformError | None = None,
    shown: _Shown = None,
) -> HttpResponse:
    context = {
        "principal": principal,
        "error": error,
        "tokens": api_tokens_of(principal),
        "token_form": ApiTokenForm(auto_id=""),
        "second_factor": second_factor_of(principal.user_id),
        "setup": pending_second_factor(principal),
        "sign_ins": sign_ins_of(principal),
        **(shown or {}),
    }
    status = PROBLEMS[error.problem_code] if error else 200
    response = render(request, "console/account.html", context, status=status)
    for name, value in (problem_headers(error) if error else {}).items():
        response[name] = value
    return response


def _change_password(
    request: HttpRequest, principal: Principal, given: Mapping[str, Any]
) -> _Shown:
    change_password_session(request, principal, old=given["old"], new=given["new"])
    return {"is_changed": True}


def _create_token(_request: HttpRequest, principal: Principal, given: Mapping[str, Any]) -> _Shown:
    return {"token": create_api_token(principal, **given).token}


def _revoke_token(_request: HttpRequest, principal: Principal, given: Mapping[str, Any]) -> _Shown:
    revoke_api_token(principal, given["token"])
    return None


def _end_sign_in(_request: HttpRequest, principal: Principal, given: Mapping[str, Any]) -> _Shown:
    end_sign_in(principal, given["sign_in"])
    return None


def _begin(_request: HttpRequest, principal: Principal, _given: Mapping[str, Any]) -> _Shown:
    begin_second_factor(principal)
    return {}


def _confirm(_request: HttpRequest, principal: Principal, given: Mapping[str, Any]) -> _Shown:
    return {"recovery_codes": confirm_second_factor(principal, given["code"])}


def _replace_codes(_request: HttpRequest, principal: Principal, given: Mapping[str, Any]) -> _Shown:
    return {"recovery_codes": replace_recovery_codes(principal, given["code"])}


def _remove(_request: HttpRequest, principal: Principal, given: Mapping[str, Any]) -> _Shown:
    remove_second_factor(principal, given["code"])
    return {}


_ACTIONS: Final = {
    "change-password": ("password", ChangePasswordForm, _change_password),
    "create-token": ("tokens", ApiTokenForm, _create_token),
    "revoke-token": ("tokens/revoke", RevokeTokenForm, _revoke_token),
    "end-sign-in": ("sign-ins/end", EndSignInForm, _end_sign_in),
    "second-factor-begin": ("second-factor/begin", CodeForm, _begin),
    "second-factor-confirm": ("second-factor/confirm", CodeForm, _confirm),
    "second-factor-codes": ("second-factor/codes", CodeForm, _replace_codes),
    "second-factor-remove": ("second-factor/remove", CodeForm, _remove),
}
ACTIONS: Final = {name: path for name, (path, _, _) in _ACTIONS.items()}
