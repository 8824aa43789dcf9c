"""The first page: the list of runs with its filters, and the dialog that launches one.

Filters and pages are parameters of the address, so a list can be shared and the Back button works.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.api import Principal, Role
from apps.console import selectors
from apps.console.domain import display
from apps.console.domain.parameters import choice, text
from apps.console.views import page
from apps.executions import api as executions
from apps.platform_settings.api import NOT_ISOLATED, backends
from apps.suites import api as suites
from kernel import clock

RUNS_A_PAGE: Final = 50
_STATUSES: Final = {
    "": "Any status",
    "Queued,Booting,Canceling": "Active",
    "Queued": "Queued",
    "Booting,Canceling": "Running",
    "Healthy": "Healthy",
    "Failed": "Failed",
    "Canceled": "Canceled",
}
_TIMES: Final = {
    "": ("Any time", None),
    "1h": ("Last hour", timedelta(hours=1)),
    "24h": ("Last 24 hours", timedelta(hours=24)),
    "7d": ("Last 7 days", timedelta(days=7)),
    "30d": ("Last 30 days", timedelta(days=30)),
}
_FILTERS: Final = ("status", "suite", "profile", "author", "q", "time")
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
    given = {name: text(request.GET, name) for name in (*_FILTERS, "before")}
    for name, offered in (("status", _STATUSES), ("time", _TIMES)):
        choice(given, name, offered)
    filters = {name: given[name] for name in _FILTERS if given[name]}
    wanted = _run_filter(given)
    found = executions.run_page(principal, wanted, before=given["before"], limit=RUNS_A_PAGE)
    now, may_launch = timezone.now(), principal.has_role(Role.RUNNER)
    context = {
        "read_at": read_at,
        "one_backend": _is_one(item["backend"] for item in found.items),
        "runs": [selectors.run_row(item, now) for item in found.items],
        "empty_row": {"isolated": True},
        "gauges": _gauges(executions.overview(principal)["summary"]),
        "given": given,
        "filtered": bool(filters),
        "live": not filters and not given["before"],
        "statuses_offered": _STATUSES,
        "times_offered": {value: words for value, (words, _) in _TIMES.items()},
        "suites_offered": _suites(given["suite"]),
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
    past = _TIMES[given["time"]][1]
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


def _suites(chosen: str) -> dict[str, str]:
    """Return id → title; a suite that is no longer there may still have runs."""
    titles = {suite["id"]: suite["title"] for suite in suites.list_suites()}
    gone = {chosen: chosen} if chosen and chosen not in titles else {}
    return {"": "Any suite", **titles, **gone}


def _address(parameters: dict[str, str]) -> str:
    return "/?" + urlencode(parameters) if parameters else "/"
