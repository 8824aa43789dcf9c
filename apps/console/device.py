"""The page on which a person confirms the sign-in of a program by its code."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.api import (
    Principal,
    TokenScope,
    approve_device,
    deny_device,
    find_device_authorization,
    scopes_of,
    shown_user_code,
)
from apps.console.domain import display
from apps.console.forms.accounts import DeviceForm
from apps.console.views import page
from apps.http.api import client_ip
from apps.operations.api import DatastoreUnavailable
from kernel.clock import rfc3339
from kernel.errors import PlatformError
from kernel.problems import PROBLEMS, problem_headers

DECISIONS: Final = ("approve", "deny")


@require_safe
@page
def device(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Ask for the code; with `?code=`, show who waits for it and ask for a decision."""
    code = request.GET.get("code", "")
    return _confirmation(request, principal, code) if code else _page(request, principal)


@require_POST
@page
def decide(request: HttpRequest, principal: Principal, decision: str) -> HttpResponse:
    """Approve or deny the request that the form names, and say what follows."""
    form = DeviceForm(request.POST)
    code = request.POST.get("code", "")
    try:
        if decision == "deny":
            row = deny_device(request, principal, code)
            return _page(request, principal, ended=row, is_denied=True)
        form.require_valid()
        given = form.cleaned_data
        row = approve_device(request, principal, code, scope=given["scope"], days=given["days"])
    except DatastoreUnavailable:
        raise
    except PlatformError as error:
        return _page(request, principal, error=error, code=code)
    return _page(request, principal, ended=row, days=given["days"])


def _confirmation(request: HttpRequest, principal: Principal, code: str) -> HttpResponse:
    try:
        row = find_device_authorization(request, principal, code)
    except DatastoreUnavailable:
        raise
    except PlatformError as error:
        return _page(request, principal, error=error, code=code)
    scopes = scopes_of(principal)
    form = DeviceForm(auto_id="", initial={"scope": _usual_scope(scopes)})
    form.offer(scopes)
    return _page(
        request,
        principal,
        waiting=row,
        code=shown_user_code(row.user_code),
        ago=display.ago(rfc3339(row.created_at), timezone.now()),
        is_elsewhere=row.address != client_ip(request),
        form=form,
    )


def _usual_scope(scopes: list[TokenScope]) -> TokenScope:
    return TokenScope.RUN if TokenScope.RUN in scopes else scopes[0]


def _page(
    request: HttpRequest,
    principal: Principal,
    *,
    error: PlatformError | None = None,
    **shown: object,
) -> HttpResponse:
    context = {"principal": principal, "error": error, **shown}
    status = PROBLEMS[error.problem_code] if error else 200
    response = render(request, "console/device.html", context, status=status)
    for name, value in (problem_headers(error) if error else {}).items():
        response[name] = value
    return response
