"""The page of all suites: how each went lately, search, order and launch.

Search and order are parameters of the address, so a list can be shared and the Back button works.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.api import Principal, Role
from apps.console import selectors
from apps.console.domain import display
from apps.console.forms.filters import SuiteFilters
from apps.console.views import page
from apps.executions import api as executions
from apps.suites import api as suites

RESULTS_A_SUITE: Final = 5
_FAILED: Final = frozenset({"Failed"})
Row = Mapping[str, Any]  # what the page shows of a suite, or of a run
_SEARCHED: Final = ("id", "title", "description", "repository", "owner")


@require_safe
@page
def suite_list(request: HttpRequest, principal: Principal) -> HttpResponse:
    form = SuiteFilters(request.GET)
    given = form.read()
    known = suites.list_suites()
    found = [suite for suite in known if _has_words(suite, given["q"].casefold().split())]
    may_launch = principal.has_role(Role.RUNNER)
    context = {
        "rows": _in_order(_rows(principal, found), given["sort"]),
        "known": len(known),
        "form": form,
        "filtered": bool(given["q"]),
        "may_launch": may_launch,
        "launch": selectors.launch_suites() if may_launch else [],
        "principal": principal,
        "nav": "suites",
    }
    return render(request, "console/suites.html", context)


def _has_words(suite: Mapping[str, Any], words: Sequence[str]) -> bool:
    """Return whether every word is somewhere in what identifies or describes the suite."""
    parts = [suite.get(name) or "" for name in _SEARCHED] + list(suite.get("tags") or ())
    everything = " ".join(parts).casefold()
    return all(word in everything for word in words)


def _rows(principal: Principal, found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return each suite with its last results and its last failure."""
    ids, now = [suite["id"] for suite in found], timezone.now()
    newest = executions.newest_by_suite(principal, ids, count=RESULTS_A_SUITE)
    failed = executions.newest_by_suite(principal, ids, count=1, statuses=_FAILED)
    return [
        {
            "suite": suite,
            "steps": len(suite.get("topology", ())),
            "problem": suite.get("topologyError"),
            "runs": [_result(run, now) for run in newest.get(suite["id"], ())],
            "failure": next((_result(run, now) for run in failed.get(suite["id"], ())), None),
        }
        for suite in found
    ]


def _result(run: Mapping[str, Any], now: datetime) -> Row:
    shown = display.run_display(run["status"], failing=run["failing"])
    ago = display.ago(run["startedAt"], now)
    attempt = display.trigger_text(run) if "attempt" in run else ""
    title = ", ".join(filter(None, (shown.label, ago, run.get("author", ""), attempt)))
    return {"run": run, "display": shown, "ago": ago, "title": title}


def _in_order(rows: list[Row], sort: str) -> list[Row]:
    """Return the rows, which come by title, in the order that `sort` asks for."""
    newest = {"recent": "runs", "failed": "failure"}.get(sort)
    if newest is None:
        return rows
    last_first = sorted(rows, key=lambda row: _last_start(row, newest), reverse=True)
    if sort == "recent":
        return last_first
    return sorted(last_first, key=lambda row: not _is_failed_now(row))


def _last_start(row: Mapping[str, Any], name: str) -> str:
    found = row[name][:1] if name == "runs" else [row[name]]
    return next((each["run"]["startedAt"] for each in found if each), "")


def _is_failed_now(row: Mapping[str, Any]) -> bool:
    return any(each["run"]["status"] in _FAILED for each in row["runs"][:1])
