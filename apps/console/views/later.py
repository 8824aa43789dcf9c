"""Pages that this release does not have yet: 501 (reference: control-plane 19)."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from apps.accounts.api import Principal
from apps.console.services import error_page
from apps.console.views.page import page
from kernel.errors import NotAvailable

_SENTENCE: Final = "This release does not have this page yet; a later one will."


@require_safe
@page
def later(_request: HttpRequest, _principal: Principal) -> HttpResponse:
    raise NotAvailable(_SENTENCE)


@require_safe
def later_for_anyone(request: HttpRequest) -> HttpResponse:
    return error_page(request, NotAvailable(_SENTENCE))
