"""Sign-in, sign-up and sign-out: forms with the rules and limits of their API twins."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.api import sign_in_session, sign_out_session, sign_up_session
from apps.console import conf
from apps.console.domain.paths import same_site
from apps.console.services import dressed
from kernel.errors import PlatformError
from kernel.problems import PROBLEMS, problem_headers

_FORM_METHODS = ["GET", "HEAD", "POST"]


@require_http_methods(_FORM_METHODS)
@csrf_protect
def sign_in(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _form(request, "console/sign_in.html")
    try:
        sign_in_session(
            request,
            email=request.POST.get("email", ""),
            password=request.POST.get("password", ""),
        )
    except PlatformError as error:
        return _form(request, "console/sign_in.html", error)
    return _onward(request)


@require_http_methods(_FORM_METHODS)
@csrf_protect
def sign_up(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _form(request, "console/sign_up.html")
    try:
        sign_up_session(
            request,
            full_name=request.POST.get("fullName", ""),
            email=request.POST.get("email", ""),
            password=request.POST.get("password", ""),
        )
    except PlatformError as error:
        return _form(request, "console/sign_up.html", error)
    return _onward(request)


@require_POST
@csrf_protect
def sign_out(request: HttpRequest) -> HttpResponse:
    sign_out_session(request)
    return HttpResponseRedirect("/sign-in")


def _form(request: HttpRequest, template: str, error: PlatformError | None = None) -> HttpResponse:
    """The form; after a refusal with what was typed (but the password), status as in the API."""
    facts = {
        "next": same_site(request.POST.get("next", "") or request.GET.get("next", "")),
        "offers_password": conf.offers_password(),
        "offers_sign_up": conf.offers_sign_up(),
        "error": error,
        "full_name": request.POST.get("fullName", ""),
        "email": request.POST.get("email", ""),
    }
    response = dressed(render(request, template, facts))
    if error is not None:
        response.status_code = PROBLEMS[error.problem_code]
        for name, value in problem_headers(error).items():
            response[name] = value
    return response


def _onward(request: HttpRequest) -> HttpResponse:
    return HttpResponseRedirect(same_site(request.POST.get("next", "")))
