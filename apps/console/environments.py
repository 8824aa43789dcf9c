"""The page of the environments: what still runs on the machines, whose it is, and its removal.

Filters are parameters of the address. The script of the page fetches the list again when the
stream of snapshots has a new one; a removal shows what it would remove before it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.api import Principal, Role, workspace_names
from apps.console import conf, selectors
from apps.console.domain import display, environment_display
from apps.console.forms.filters import EVERYTHING, ZOMBIES, EnvironmentFilters, RemovalScope
from apps.console.views import page
from apps.environments import api as environments
from apps.environments.api import CleanupResult, EnvironmentDocument
from apps.operations.api import DatastoreUnavailable
from apps.platform_settings.api import NOT_ISOLATED
from kernel.errors import InvalidInput, PlatformError
from kernel.problems import PROBLEMS

_ID_MAX: Final = 300
_FORM_METHODS: Final = ["GET", "HEAD", "POST"]


@require_safe
@page
def environment_list(request: HttpRequest, principal: Principal) -> HttpResponse:
    may_launch = principal.has_role(Role.RUNNER)
    context = list_context(request, principal) | {
        "may_launch": may_launch,
        "suites": selectors.launch_suites() if may_launch else [],
        "statuses": {**display.FOR_SCRIPTS, "notIsolated": NOT_ISOLATED},
        "principal": principal,
        "nav": "environments",
    }
    return render(request, "console/environments.html", context)


@require_safe
@page
def environment_rows(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Render what changes on the page, for its script."""
    context = list_context(request, principal)
    context["may_launch"] = principal.has_role(Role.RUNNER)
    return render(request, "console/_environments.html", context)


def list_context(request: HttpRequest, principal: Principal) -> dict[str, object]:
    form = EnvironmentFilters(request.GET)
    given = form.read()
    found = environments.snapshot(principal, status=given["status"], q=given["q"])
    names = _workspace_names(principal, found["sandboxes"])
    now = timezone.now()
    rows = [
        environment_display.environment_row(
            each, found, now, names.get(each.get("workspaceId", ""), "")
        )
        for each in found["sandboxes"]
    ]
    return {
        "snapshot": found,
        "facts": environment_display.summary_facts(found["summary"]),
        "rows": rows,
        "reaps": environment_display.reap_rows(found),
        "form": form,
        "filtered": any(given.values()),
        "query": urlencode({name: value for name, value in given.items() if value}),
        "may_reap": principal.has_role(Role.RUNNER),
        "may_reap_all": principal.is_admin,
        "runner_command": f"{conf.command_line()} run_runner",
    }


def _workspace_names(principal: Principal, found: Sequence[EnvironmentDocument]) -> dict[str, str]:
    """Return the names by id; members see environments of one workspace and need none."""
    if not principal.is_admin:
        return {}
    return workspace_names({parsed for each in found if (parsed := _workspace_id(each))})


def _workspace_id(environment: EnvironmentDocument) -> UUID | None:
    """Return the workspace's id; what a label says of an orphan need not be one."""
    try:
        return UUID(environment.get("workspaceId", ""))
    except ValueError:
        return None


@require_http_methods(_FORM_METHODS)
@page
def reap(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Show what a removal of the environment `?id=` would remove; remove it with POST."""
    sandbox_id = request.GET.get("id", "")[:_ID_MAX]
    address = f"{reverse('console:reap-environment')}?{urlencode({'id': sandbox_id})}"
    return _removal(
        request,
        principal,
        {"address": address, "sandbox_id": sandbox_id},
        clean_up=lambda dry_run: environments.reap(principal, sandbox_id, dry_run=dry_run),
        concerns=lambda each: bool(each["sandboxId"] == sandbox_id),
    )


@require_http_methods(_FORM_METHODS)
@page
def reap_all(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Show what a removal of all zombies, or of everything, would remove; remove it with POST."""
    scope = RemovalScope(request.GET).read()["scope"]
    zombies_only, word = scope == ZOMBIES, "" if scope == ZOMBIES else EVERYTHING

    def clean_up(dry_run: bool) -> CleanupResult:  # noqa: FBT001 - called by position, as `reap`
        if not dry_run and request.POST.get("confirm", "").strip() != word:
            raise InvalidInput(f"type the word {word} to confirm; nothing was removed")
        if zombies_only and not principal.is_admin:
            return reap_each(principal, dry_run=dry_run)
        return environments.reap_all(principal, dry_run=dry_run, only_zombies=zombies_only)

    address = f"{reverse('console:reap-environments')}?{urlencode({'scope': scope})}"
    return _removal(
        request,
        principal,
        {"address": address, "scope": scope, "word": word},
        clean_up=clean_up,
        concerns=lambda each: bool(each["isZombie"]) or not zombies_only,
    )


def reap_each(principal: Principal, *, dry_run: bool) -> CleanupResult:
    """Remove a member's zombies one by one, and return the results as one document.

    Only administrators may remove what all workspaces have. A removal that is refused is a
    warning; the others go on.
    """
    results, warnings = [], []
    for each in environments.snapshot(principal, status="Zombie")["sandboxes"]:
        try:
            results.append(environments.reap(principal, each["sandboxId"], dry_run=dry_run))
        except DatastoreUnavailable:
            raise
        except PlatformError as error:
            warnings.append(f"{each['sandboxId']}: {error.detail}")
    return environment_display.sum_results(results, warnings, dry_run=dry_run)


def _removal(
    request: HttpRequest,
    principal: Principal,
    context: Mapping[str, object],
    *,
    clean_up: Callable[[bool], CleanupResult],
    concerns: Callable[[EnvironmentDocument], bool],
) -> HttpResponse:
    """Render the plan, with POST the result: for the script, or opened by hand as a page.

    `clean_up` takes whether it is a dry run; `concerns` tells what the plan names.
    """
    dry_run, status = request.method != "POST", 200
    shown = {**context, "is_plan": dry_run, "principal": principal, "nav": "environments"}
    try:
        result = clean_up(dry_run)
        found = environments.snapshot(principal)["sandboxes"] if dry_run else []
    except DatastoreUnavailable:
        raise
    except PlatformError as error:
        shown["problem"], status = error, PROBLEMS[error.problem_code]
    else:
        shown |= {
            "result": result,
            "words": environment_display.removal_words(result),
            "total": environment_display.removed_count(result),
            "affected": [
                {"environment": each, "names": environment_display.resource_names(each)}
                for each in found
                if concerns(each)
            ],
        }
    if "HX-Request" in request.headers:
        return render(request, "console/_environment_reap.html", shown)
    return render(request, "console/environment_reap.html", shown, status=status)
