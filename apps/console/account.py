"""The page of the caller's own account."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.api import Principal, change_password_session, revoke_everything
from apps.console.views import page
from apps.operations.api import DatastoreUnavailable
from kernel.errors import InvalidInput, PlatformError
from kernel.problems import PROBLEMS, problem_headers


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
    return HttpResponseRedirect("/sign-in", status=303)


def _account(
    request: HttpRequest,
    principal: Principal,
    *,
    error: PlatformError | None = None,
    is_changed: bool = False,
) -> HttpResponse:
    context = {"principal": principal, "error": error, "is_changed": is_changed}
    status = PROBLEMS[error.problem_code] if error else 200
    response = render(request, "console/account.html", context, status=status)
    for name, value in (problem_headers(error) if error else {}).items():
        response[name] = value
    return response
