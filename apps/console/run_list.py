"""The first page: the list of runs with its filters, and the dialog that launches one.

Filters and pages are parameters of the address, so a list can be shared and the Back button works.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.api import Principal, Role
from apps.console import selectors
from apps.console.domain import display
from apps.console.forms.filters import RUN_TIMES, RunFilters
from apps.console.views import page
from apps.executions import api as executions
from apps.platform_settings.api import NOT_ISOLATED, backends
from apps.suites import api as suites
from kernel import clock

RUNS_A_PAGE: Final = 50
_GAUGES: Final = (
    ("Queued", "queuedExecutions", "Queued"),
    ("Running", "bootingExecutions", "Booting,Canceling"),
    ("Healthy", "healthyExecutions", "Healthy"),
    ("Failed", "failedExecutions", "Failed"),
    ("Canceled", "canceledExecutions", "Canceled"),
)


@require_safe
@page
def home(request: HttpRequest, principal: Principal) -> HttpResponse:
    read_at = clock.rfc3339(clock.now())
    form = RunFilters(request.GET, {each["id"]: each["title"] for each in suites.list_suites()})
    given = form.read()
    filters = {name: value for name, value in given.items() if value and name != "before"}
    wanted = _run_filter(given)
    found = executions.run_page(principal, wanted, before=given["before"], limit=RUNS_A_PAGE)
    now, may_launch = timezone.now(), principal.has_role(Role.RUNNER)
    context = {
        "read_at": read_at,
        "one_backend": _is_one(item["backend"] for item in found.items),
        "runs": [selectors.run_row(item, now) for item in found.items],
        "empty_row": {"isolated": True},
        "gauges": _gauges(executions.overview(principal)["summary"]),
        "form": form,
        "before": given["before"],
        "filtered": bool(filters),
        "live": not filters and not given["before"],
        "newest": _address(filters),
        "older": _address({**filters, "before": found.older}) if found.older else "",
        "may_launch": may_launch,
        "suites": selectors.launch_suites() if may_launch else [],
        "statuses": {**display.FOR_SCRIPTS, "notIsolated": NOT_ISOLATED},
        "principal": principal,
        "nav": "runs",
    }
    return render(request, "console/home.html", context)


def _is_one(labels: Iterable[str]) -> bool:
    """Return whether all runs of the list, and all that could join it, are of one backend."""
    return len({*labels, *(each.label for each in backends() if each.enabled)}) <= 1


def _run_filter(given: dict[str, str]) -> executions.RunFilter:
    """Return the filter that the parameters ask for."""
    past = RUN_TIMES[given["time"]][1]
    return executions.RunFilter(
        statuses=frozenset(filter(None, given["status"].split(","))),
        suite_id=given["suite"],
        profile=given["profile"],
        author=given["author"],
        words=given["q"],
        live_since=timezone.now() - past if past else None,
    )


def _gauges(summary: Any) -> list[dict[str, object]]:
    """Return the gauges, each with the address of the runs that it counts."""
    return [
        {
            "label": label,
            "key": key,
            "count": summary[key],
            "address": _address({"status": status, "time": "24h"}),
        }
        for label, key, status in _GAUGES
    ]


def _address(parameters: dict[str, str]) -> str:
    return reverse("console:home", query=parameters)
