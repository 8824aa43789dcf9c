"""The page of the caller's own account."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.api import (
    Principal,
    TokenScope,
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
from apps.console.views import page
from apps.operations.api import DatastoreUnavailable
from kernel.errors import InvalidInput, PlatformError
from kernel.problems import PROBLEMS, problem_headers

DAYS: Final = ("7", "30", "90", "365")
SCOPES: Final = [
    (TokenScope.READ, "Read runs"),
    (TokenScope.RUN, "Also launch, cancel and delete runs"),
    (TokenScope.ADMIN, "All that you may do"),
]


@require_safe
@page
def account(request: HttpRequest, principal: Principal) -> HttpResponse:
    return _account(request, principal)


@require_POST
@page
def change_password(request: HttpRequest, principal: Principal) -> HttpResponse:
    new = request.POST.get("new", "")
    try:
        if new != request.POST.get("again", ""):
            raise InvalidInput("the two new passwords differ")
        change_password_session(request, principal, old=request.POST.get("old", ""), new=new)
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
    try:
        made = create_api_token(
            principal,
            name=request.POST.get("name", ""),
            scope=_scope(request.POST.get("scope", "")),
            days=_days(request.POST.get("days", "")),
        )
    except DatastoreUnavailable:
        raise
    except PlatformError as error:
        return _account(request, principal, error=error)
    return _account(request, principal, token=made.token)


@require_POST
@page
def revoke_token(request: HttpRequest, principal: Principal) -> HttpResponse:
    try:
        revoke_api_token(principal, UUID(request.POST.get("token", "")))
    except ValueError:
        return _account(request, principal, error=InvalidInput("the form names no token"))
    except DatastoreUnavailable:
        raise
    except PlatformError as error:
        return _account(request, principal, error=error)
    return HttpResponseRedirect(reverse("console:account"), status=303)


@require_POST
@page
def change_second_factor(request: HttpRequest, principal: Principal, action: str) -> HttpResponse:
    """Begin, confirm or remove the second factor, or replace its recovery codes."""
    try:
        codes = _SECOND_FACTOR[action](principal, request.POST.get("code", ""))
    except DatastoreUnavailable:
        raise
    except PlatformError as error:
        return _account(request, principal, error=error)
    return _account(request, principal, recovery_codes=codes)


@require_POST
@page
def end_one_sign_in(request: HttpRequest, principal: Principal) -> HttpResponse:
    try:
        end_sign_in(principal, UUID(request.POST.get("sign_in", "")))
    except ValueError:
        return _account(request, principal, error=InvalidInput("the form names no sign-in"))
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


def _scope(text: str) -> TokenScope:
    try:
        return TokenScope(text)
    except ValueError:
        raise InvalidInput(f"scope must be one of {', '.join(TokenScope)}") from None


def _days(text: str) -> int:
    if text not in DAYS:
        raise InvalidInput(f"the number of days must be one of {', '.join(DAYS)}")
    return int(text)


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
        "scopes": SCOPES,
        "days": DAYS,
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
