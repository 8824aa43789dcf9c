from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.accounts.api import Principal
from apps.console import selectors
from apps.console.views.page import page


@require_safe
@page
def run(request: HttpRequest, principal: Principal, run_id: str) -> HttpResponse:
    facts = selectors.run_page(principal, run_id)
    return render(request, "console/run.html", facts | {"principal": principal, "nav": "runs"})


@require_safe
@page
def run_panels(request: HttpRequest, principal: Principal, run_id: str) -> HttpResponse:
    """The parts of a run's page that change, as out-of-band fragments for htmx."""
    return render(request, "console/_run_panels.html", selectors.run_page(principal, run_id))
