"""The first page: the list of runs with its filters, and the dialog that launches one.

Filters and pages are parameters of the address, so a list can be shared and the Back button works.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.api import Principal
from apps.console import selectors
from apps.console.domain import display
from apps.console.views import page
from apps.executions import api as executions
from apps.platform_settings.api import NOT_ISOLATED
from apps.suites import api as suites
from kernel import clock
from kernel.errors import FieldError, InvalidInput

RUNS_A_PAGE: Final = 50
_TEXT_MAX: Final = 200
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
    given = {name: request.GET.get(name, "").strip() for name in (*_FILTERS, "before")}
    filters = {name: given[name] for name in _FILTERS if given[name]}
    wanted = _run_filter(given)
    found = executions.run_page(principal, wanted, before=given["before"], limit=RUNS_A_PAGE)
    now = timezone.now()
    context = {
        "read_at": read_at,
        "runs": [selectors.run_row(item, now) for item in found.items],
        "empty_row": {"isolated": True},
        "gauges": _gauges(executions.overview(principal)["summary"]),
        "given": given,
        "filtered": bool(filters),
        "live": not filters and not given["before"],
        "statuses_offered": _STATUSES,
        "times_offered": {value: text for value, (text, _) in _TIMES.items()},
        "suites_offered": _suites(given["suite"]),
        "newest": _address(filters),
        "older": _address({**filters, "before": found.older}) if found.older else "",
        "suites": selectors.launch_suites(),
        "statuses": {**display.FOR_SCRIPTS, "notIsolated": NOT_ISOLATED},
        "principal": principal,
        "nav": "runs",
    }
    return render(request, "console/home.html", context)


def _run_filter(given: dict[str, str]) -> executions.RunFilter:
    """Return the filter that the parameters ask for; raise InvalidInput."""
    for name, offered in (("status", _STATUSES), ("time", _TIMES)):
        if given[name] not in offered:
            known = ", ".join(value for value in offered if value)
            raise _invalid(name, f"{given[name][:_TEXT_MAX]!r} is none of {known}")
    for name, text in given.items():
        if len(text) > _TEXT_MAX or not text.isprintable():
            raise _invalid(name, f"at most {_TEXT_MAX} printable characters")
    past = _TIMES[given["time"]][1]
    return executions.RunFilter(
        statuses=frozenset(filter(None, given["status"].split(","))),
        suite_id=given["suite"],
        profile=given["profile"],
        author=given["author"],
        words=given["q"],
        live_since=timezone.now() - past if past else None,
    )


def _invalid(name: str, detail: str) -> InvalidInput:
    error = FieldError(pointer=name, code="invalid_value", detail=detail)
    return InvalidInput(f"{name}: {detail}", code="invalid_parameter", errors=[error])


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
