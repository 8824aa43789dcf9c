from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.accounts.api import Principal
from apps.console import selectors
from apps.console.views.page import page


@require_safe
@page
def home(request: HttpRequest, principal: Principal) -> HttpResponse:
    facts = selectors.home(principal) | {"suites": selectors.launch_suites()}
    return render(request, "console/home.html", facts | {"principal": principal, "nav": "runs"})
