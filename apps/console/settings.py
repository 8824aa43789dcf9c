"""The pages of the platform settings: read by everyone, changed by administrators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.api import Forbidden, Principal
from apps.console.domain.settings_sections import SECTIONS, Section
from apps.console.forms.settings import (
    Panel,
    apply_entry_action,
    build_panel,
    read_panel,
    replace_values,
    show_errors,
)
from apps.console.views import page
from apps.oci import api as oci
from apps.platform_settings.api import (
    SecretUnreadable,
    SettingsChanged,
    check_secret_provider,
    replace_settings,
    secret_provider_titles,
    settings_document,
    settings_etag,
    settings_history,
)
from kernel.errors import InvalidInput, NotFound, PlatformError
from kernel.problems import PROBLEMS

_HISTORY: Final = 20
_STATES: Final = {
    "Ready": "An online supervisor with a working runtime serves it.",
    "Standby": "It is disabled.",
    "Disconnected": (
        "No online supervisor serves it. Start `partita run_runner` beside the store, or for "
        "type remote-agent `partita run_worker` where steps are to run."
    ),
}


@require_safe
@page
def index(_request: HttpRequest, _principal: Principal) -> HttpResponse:
    return redirect("console:settings-general")


@require_safe
@page
def agents(_request: HttpRequest, _principal: Principal) -> HttpResponse:
    """Lead from the address that the page of the backends had before."""
    return redirect("console:settings-backends", permanent=True)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def section(request: HttpRequest, principal: Principal, name: str) -> HttpResponse:
    """Show a section; a form sends `do`: `save`, or a change of entries, which stores nothing."""
    this, document = SECTIONS[name], settings_document(principal)
    if request.method != "POST":
        return _page(request, principal, this, document)
    _require_admin(principal)
    if not request.POST.get("tag"):
        raise InvalidInput("the form does not say which settings it was made of; open it again")
    panels = [read_panel(group, document, request.POST) for group in this.groups]
    action = request.POST.get("do", "save")
    if action == "save":
        return _save(request, principal, this, document, panels)
    panels = [
        build_panel(each.group, document, apply_entry_action(each.values, action))
        if each.group.keys.is_list
        else each
        for each in panels
    ]
    tag, seen = request.POST.get("tag", ""), request.POST.get("seen", "")
    return _page(request, principal, this, document, panels=panels, tag=tag, seen=seen, dirty=True)


@require_POST
@page
def check(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Test the connection of a registry, a secret provider or a backend."""
    _require_admin(principal)
    what, name = request.POST.get("what", ""), request.POST.get("name", "")
    if what not in _CHECKS:
        raise InvalidInput("the form names nothing that can be tested")
    result = {"name": name, **_CHECKS[what](principal, name)}
    return _result(request, principal, _SECTION_OF[what], result)


@require_POST
@page
def sync(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Read what a registry offers now, and show the result for each repository."""
    _require_admin(principal)
    name = request.POST.get("name", "")
    found = oci.sync_registry(name)
    failed = [each for each in found.errors if not each.repository]
    said = f"{found.packages} packages in {found.duration_ms} ms"
    result = {
        "name": name,
        "ok": not failed,
        "detail": failed[0].detail if failed else said,
        "repositories": _repositories(name, found),
    }
    return _result(request, principal, "registries", result)


def _save(
    request: HttpRequest,
    principal: Principal,
    this: Section,
    document: Mapping[str, Any],
    panels: Sequence[Panel],
) -> HttpResponse:
    given = replace_values(document, panels)
    tag, seen = request.POST.get("tag", ""), request.POST.get("seen", "")
    try:
        replace_settings(principal, given, if_match=tag, origin="page")
    except SettingsChanged as error:
        # the form's tag is the new one now: to save again is a decision of somebody who saw both
        return _page(request, principal, this, document, panels=panels, error=error, since=seen)
    except InvalidInput as error:
        return _page(
            request, principal, this, document, panels=panels, error=error, tag=tag, seen=seen
        )
    return HttpResponseRedirect(f"{_address(this)}?saved=1", status=303)


def _address(this: Section) -> str:
    return reverse(f"console:settings-{this.name}")


def _page(  # noqa: PLR0913 - a form with all that may be said of it
    request: HttpRequest,
    principal: Principal,
    this: Section,
    document: Mapping[str, Any],
    *,
    panels: Sequence[Panel] = (),
    error: PlatformError | None = None,
    tag: str = "",
    seen: str = "",
    since: str = "",
    dirty: bool = False,
    result: Mapping[str, Any] | None = None,
) -> HttpResponse:
    panels = panels or [build_panel(group, document) for group in this.groups]
    history = settings_history(principal, _HISTORY)
    context = {
        "section": this,
        "sections": [(each, _address(each)) for each in SECTIONS.values()],
        "address": _address(this),
        "panels": panels,
        "document": document,
        "may_edit": principal.is_admin,
        "tag": tag or settings_etag(document),
        "seen": seen or document.get("updatedAt", ""),
        "error": error,
        "faults": show_errors(panels, error.errors) if error else [],
        "may_save": dirty or bool(error) or any(each.forms for each in panels),
        "since": [each for each in history if since and _after(each.time, since)],
        "history": history if this.name == "general" else [],
        "providers": secret_provider_titles() if this.name == "secrets" else {},
        "saved": "saved" in request.GET,
        "dirty": dirty,
        "result": result,
        "principal": principal,
        "nav": "settings",
    }
    status = PROBLEMS[error.problem_code] if error else 200
    return render(request, "console/settings.html", context, status=status)


def _result(
    request: HttpRequest, principal: Principal, name: str, result: Mapping[str, Any]
) -> HttpResponse:
    if "HX-Request" in request.headers:
        return render(request, "console/_settings_result.html", {"result": result})
    document = settings_document(principal)
    return _page(request, principal, SECTIONS[name], document, result=result)


def _after(moment: Any, since: str) -> bool:
    return bool(moment.isoformat(timespec="milliseconds")[:23] > since[:23])


def _require_admin(principal: Principal) -> None:
    if not principal.is_admin:
        raise Forbidden("only an administrator may change the platform settings")


def _check_registry(_principal: Principal, name: str) -> dict[str, Any]:
    report = oci.test_connection(name)
    detail = report.detail or f"it answers and accepts the credentials ({report.duration_ms} ms)"
    return {"ok": report.reachable, "detail": detail}


def _check_provider(_principal: Principal, name: str) -> dict[str, Any]:
    try:
        return {"ok": True, "detail": check_secret_provider(name)}
    except SecretUnreadable as error:
        return {"ok": False, "detail": str(error)}


def _check_backend(principal: Principal, name: str) -> dict[str, Any]:
    for agent in settings_document(principal)["agents"]:
        if agent["agentId"] == name:
            heard = agent.get("lastHeartbeatAt")
            more = f" Last heartbeat: {heard}." if heard else ""
            return {
                "ok": agent["status"] == "Ready",
                "detail": agent.get("waitsFor") or _STATES[agent["status"]] + more,
            }
    raise NotFound(f"there is no backend {name[:128]!r}; save it first")


def _repositories(name: str, found: oci.SyncResult) -> list[dict[str, str]]:
    failed = {each.repository: each.detail for each in found.errors if each.repository}
    rows = [
        {"repository": each.repository, "version": each.version, "error": each.error_detail}
        for each in oci.list_repositories()
        if each.registry_id == name and each.repository not in failed
    ]
    return [
        *({"repository": each, "version": "", "error": failed[each]} for each in failed),
        *rows,
    ]


_CHECKS: Final[Mapping[str, Callable[[Principal, str], dict[str, Any]]]] = {
    "registry": _check_registry,
    "provider": _check_provider,
    "backend": _check_backend,
}
_SECTION_OF: Final = {"registry": "registries", "provider": "secrets", "backend": "backends"}
