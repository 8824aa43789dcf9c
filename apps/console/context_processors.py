"""What every page has in its context."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Final

from django.http import HttpRequest
from django.urls import reverse

from apps.http.api import has_documentation

_ROUTES: Final = {
    "home": "console:home",
    "suites": "console:suites",
    "catalog": "console:catalog",
    "environments": "console:environments",
    "signIn": "console:sign-in",
    "runs": "executions:executions-list",
    "overview": "executions:engine-overview-stream",
    "sandboxes": "environments:events",
    "me": "accounts:me",
    "oidcLogin": "accounts:oidc-login",
    "previewInvitation": "accounts:invited-preview",
    "acceptInvitation": "accounts:invited-accept",
}


def script_urls(_request: HttpRequest) -> dict[str, Callable[[], str]]:
    """Return the addresses that scripts call or go to, as JSON for `static/console/js/urls.js`."""
    return {"script_urls": _addresses}


def documentation(_request: HttpRequest) -> dict[str, Callable[[], bool]]:
    """Return whether the server has the documentation site, for the menu that links to it."""
    return {"has_documentation": has_documentation}


@functools.cache  # constants: reversed once, and only where a page wants them
def _addresses() -> str:
    run = reverse("console:run", args=["RUN_ID"])  # the script writes the id of a run there
    return json.dumps({"run": run, **{name: reverse(route) for name, route in _ROUTES.items()}})
