from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.accounts.api import Principal
from apps.console import selectors
from apps.console.views.page import page


@require_safe
@page
def suite_list(request: HttpRequest, principal: Principal) -> HttpResponse:
    facts = {"suites": selectors.suite_list(), "principal": principal, "nav": "suites"}
    return render(request, "console/suites.html", facts)


@require_safe
@page
def suite(request: HttpRequest, principal: Principal, suite_id: str) -> HttpResponse:
    facts = selectors.suite_page(suite_id, request.GET.get("file", ""))
    facts["launch"] = [one for one in selectors.launch_suites() if one["id"] == suite_id]
    return render(request, "console/suite.html", facts | {"principal": principal, "nav": "suites"})
