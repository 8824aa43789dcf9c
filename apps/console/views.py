"""Pages: parse the request, read, render."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.api import (
    Principal,
    Role,
    authenticate_request,
    finish_sign_in_session,
    offers_reset,
    offers_sign_up,
    password_sign_in_enabled,
    request_reset_page,
    reset_password_page,
    sign_in_providers,
    sign_in_session,
    sign_out_session,
    sign_up_session,
)
from apps.console import api_surfaces, selectors
from apps.console.forms.accounts import (
    ForgotPasswordForm,
    ResetPasswordForm,
    SecondFactorForm,
    SignInForm,
    SignUpForm,
)
from apps.console.services import error_page, with_page_headers
from apps.operations.api import DatastoreUnavailable
from kernel.errors import PlatformError
from kernel.problems import PROBLEMS, problem_headers

RUN_TABS: Final = {
    "why": "Why",
    "steps": "Steps",
    "log": "Log",
    "tests": "Tests",
    "artifacts": "Artifacts",
    "graph": "Graph",
    "timeline": "Timeline",
    "mocks": "Mock calls",
    "shell": "Shell",
    "events": "Events",
}
NARROW_TABS: Final = ("why", "steps")  # a wide window shows them beside the others
TABS_WITH_LOG: Final = ("log", "timeline")
_FORM_METHODS: Final = ["GET", "HEAD", "POST"]

_View = Callable[..., HttpResponse]


def page(view: _View) -> _View:
    """Turn `view(request, principal, ...)` into a page for signed-in users.

    Other users are redirected to `/sign-in?next=<this path>`. A PlatformError becomes an error
    page.
    """

    @wraps(view)
    def wrapper(request: HttpRequest, **parts: str) -> HttpResponse:
        try:
            principal = authenticate_request(request)
        except DatastoreUnavailable:  # this does not mean that the credential is invalid
            raise
        except PlatformError:  # an invalid credential counts as none
            principal = None
        if principal is None or principal.is_program:  # pages are for people
            return _to_sign_in(request)
        try:
            return with_page_headers(view(request, principal, **parts))
        except DatastoreUnavailable:  # the edge knows whether a page is wanted
            raise
        except PlatformError as error:
            return error_page(request, error)

    return wrapper


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    """Redirect to the sign-in page; a fragment tells htmx to do so."""
    sign_in_page = reverse("console:sign-in")
    if "HX-Request" in request.headers:
        return HttpResponse("Please sign in.", status=401, headers={"HX-Redirect": sign_in_page})
    query = urlencode({"next": request.get_full_path()})
    return redirect(f"{sign_in_page}?{query}")


@require_safe
@page
def run(request: HttpRequest, principal: Principal, run_id: str) -> HttpResponse:
    context = selectors.run_page(principal, run_id)
    context |= _tabs(request.GET.get("tab", ""), context)
    return render(request, "console/run.html", context | {"principal": principal, "nav": "runs"})


def _tabs(named: str, context: Mapping[str, object]) -> dict[str, object]:
    """Return the tabs of a run's page, and which one is shown: the named one if it is there."""
    absent = {"mocks": not context["mock_surfaces"], "shell": not context["may_shell"]}
    tabs = {name: label for name, label in RUN_TABS.items() if not absent.get(name)}
    tab = named if named in tabs else context["first_tab"]
    return {
        "tabs": tabs,
        "narrow_tabs": NARROW_TABS,
        "tab": tab,
        "right_tab": "log" if tab in NARROW_TABS else tab,
        "shows_log": tab in (*NARROW_TABS, *TABS_WITH_LOG),
    }


@require_safe
@page
def run_panels(request: HttpRequest, principal: Principal, run_id: str) -> HttpResponse:
    """Render the changing parts of a run's page as out-of-band fragments for htmx."""
    return render(request, "console/_run_panels.html", selectors.run_page(principal, run_id))


@require_safe
@page
def run_graph(request: HttpRequest, principal: Principal, run_id: str) -> HttpResponse:
    """Render the graph with the groups that `?open=` names drawn as their steps, for htmx."""
    context = selectors.run_graph(principal, run_id, request.GET.getlist("open"))
    return render(request, "console/_graph.html", context)


@require_safe
@page
def run_timeline(request: HttpRequest, principal: Principal, run_id: str) -> HttpResponse:
    """Render the timeline of a run until now, as a fragment."""
    return render(request, "console/_timeline.html", selectors.run_timeline(principal, run_id))


@require_safe
@page
def artifact_preview(
    request: HttpRequest, principal: Principal, run_id: str, artifact_id: str
) -> HttpResponse:
    """Render the beginning of a text or an image, as a fragment."""
    context = selectors.artifact_preview(principal, run_id, artifact_id)
    return render(request, "console/_artifact_preview.html", context)


@require_safe
@page
def suite(request: HttpRequest, principal: Principal, suite_id: str) -> HttpResponse:
    context = selectors.suite_page(
        suite_id, file=request.GET.get("file", ""), tab=request.GET.get("tab", "")
    )
    may_launch = principal.has_role(Role.RUNNER)
    launchable = selectors.launch_suites() if may_launch else []
    context["launch"] = [one for one in launchable if one["id"] == suite_id]
    context["runs"] = selectors.suite_runs(principal, suite_id)
    context |= {"principal": principal, "nav": "suites"}
    return render(request, "console/suite.html", context)


@require_safe
@page
def suite_graph(request: HttpRequest, _principal: Principal, suite_id: str) -> HttpResponse:
    """Render the graph with the groups that `?open=` names drawn as their steps, for htmx."""
    context = selectors.suite_graph(suite_id, request.GET.getlist("open"))
    return render(request, "console/_graph.html", context)


@require_safe
@page
def suite_lock(request: HttpRequest, _principal: Principal, suite_id: str) -> HttpResponse:
    """Render what a new lock of the suite would change, for htmx."""
    return render(request, "console/_suite_lock.html", selectors.lock_fragment(suite_id))


@require_safe
@page
def suite_surface(
    request: HttpRequest, _principal: Principal, suite_id: str, surface_id: str
) -> HttpResponse:
    """Render the operations of a surface, for htmx."""
    context = api_surfaces.surface_fragment(suite_id, surface_id)
    return render(request, "console/_surface.html", context)


@require_safe
@page
def suite_operation(
    request: HttpRequest, _principal: Principal, suite_id: str, surface_id: str, operation_id: str
) -> HttpResponse:
    """Render one operation with its mock and examples, for htmx."""
    context = api_surfaces.operation_fragment(suite_id, surface_id, operation_id)
    return render(request, "console/_operation.html", context)


@require_http_methods(_FORM_METHODS)
def sign_in(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _form(request, "console/sign_in.html")
    if "half" in request.POST:
        return _second_factor(request)
    form = SignInForm(request.POST)
    try:
        form.require_valid()
        half = sign_in_session(request, **form.cleaned_data)
    except PlatformError as error:
        return _form(request, "console/sign_in.html", error)
    if half:
        return _form(request, "console/second_factor.html", half=half)
    return HttpResponseRedirect(same_site(request.POST.get("next", "")))


def _second_factor(request: HttpRequest) -> HttpResponse:
    """Take the code that a right password is not enough without."""
    half = request.POST["half"]
    form = SecondFactorForm(request.POST)
    try:
        form.require_valid()
        finish_sign_in_session(request, half, form.cleaned_data["code"])
    except PlatformError as error:
        if error.problem_code == "unauthenticated":  # the password is asked for again
            return _form(request, "console/sign_in.html", error)
        return _form(request, "console/second_factor.html", error, half=half)
    return HttpResponseRedirect(same_site(request.POST.get("next", "")))


@require_http_methods(_FORM_METHODS)
def sign_up(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _form(request, "console/sign_up.html")
    form = SignUpForm(request.POST)
    try:
        form.require_valid()
        given = form.cleaned_data
        sign_up_session(
            request,
            full_name=given["fullName"],
            email=given["email"],
            password=given["password"],
            invitation=given["invitation"],
        )
    except PlatformError as error:
        return _form(request, "console/sign_up.html", error)
    return HttpResponseRedirect(same_site(request.POST.get("next", "")))


@require_http_methods(_FORM_METHODS)
def forgot_password(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _form(request, "console/forgot_password.html")
    form = ForgotPasswordForm(request.POST)
    try:
        form.require_valid()
        request_reset_page(request, form.cleaned_data["email"])
    except PlatformError as error:
        return _form(request, "console/forgot_password.html", error)
    return _form(request, "console/forgot_password.html", is_done=True)


@require_http_methods(_FORM_METHODS)
def reset_password(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _form(request, "console/reset_password.html")
    form = ResetPasswordForm(request.POST)
    try:
        form.require_valid()
        reset_password_page(request, form.cleaned_data["token"], form.cleaned_data["password"])
    except PlatformError as error:
        return _form(request, "console/reset_password.html", error)
    return _form(request, "console/reset_password.html", is_done=True)


@require_safe
def sign_in_callback(request: HttpRequest) -> HttpResponse:
    """Say why a sign-in elsewhere failed: the code stands behind the `#`, which a script reads."""
    return with_page_headers(render(request, "console/sign_in_callback.html"))


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    sign_out_session(request)
    return redirect("console:sign-in")


def _form(
    request: HttpRequest,
    template: str,
    error: PlatformError | None = None,
    *,
    is_done: bool = False,
    half: str = "",
) -> HttpResponse:
    """Render the form; after an error, with the input except the password and the API's status."""
    context = {
        "next": same_site(request.POST.get("next", "") or request.GET.get("next", "")),
        "offers_password": password_sign_in_enabled(),
        "offers_sign_up": offers_sign_up(),
        "offers_reset": offers_reset(),
        "is_done": is_done,
        "half": half,
        "token": request.POST.get("token", "") or request.GET.get("token", ""),
        "providers": sign_in_providers(),
        "error": error,
        "invitation": request.POST.get("invitation", ""),
        "full_name": request.POST.get("fullName", ""),
        "email": request.POST.get("email", ""),
    }
    response = with_page_headers(render(request, template, context))
    if error is not None:
        response.status_code = PROBLEMS[error.problem_code]
        for name, value in problem_headers(error).items():
            response[name] = value
    return response


def same_site(path: str) -> str:
    """Return `path` when it is a path of this site without control characters, else home."""
    before_query = path.partition("?")[
        0
    ]  # Django refuses over 2048 characters; a filter may be long
    is_path = path.startswith("/") and path.isprintable()
    is_ours = is_path and url_has_allowed_host_and_scheme(before_query, allowed_hosts=None)
    return path if is_ours else reverse("console:home")
