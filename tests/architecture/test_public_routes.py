"""Only public routes answer without a session (reference: control-plane 3).

Every route of the site is asked by nobody; the answer must be 401, for pages the way to sign-in.
Invariant 8: agent routes ask for an agent's credential.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")
AUTH = "api/v1/auth/"
PUBLIC = {
    "healthz",
    "readyz",
    "readyz/{}",
    "api/v1/system/healthz",
    "api/v1/system/readyz",
    "api/v1/system/readyz/{}",
    *(
        AUTH + name
        for name in (
            "config",
            "sign-up",
            "sign-in",
            "ci",
            "refresh",
            "device",
            "device/token",
            "sso/providers",
            "oidc/login",
            "oidc/callback",
            "oidc/exchange",
            "forgot-password",
            "reset-password",
        )
    ),
    "api/v1/invitations/preview",
    "invitation",
    "static/{}",
    "docs",
    "docs/",
    "docs/{}",
    "accounts/{}/login/",
    "accounts/{}/login/callback/",
    "sign-in",
    "sign-up",
    "sign-out",
    "admin/logout/",  # leads back to the index, which is not
    "forgot-password",
    "reset-password",
    "auth/callback",
}


def routes() -> list[str]:
    return sorted({re.sub(r"<[^>]+>", "{}", route) for route in walk(get_resolver().url_patterns)})


def walk(patterns: list[Any], prefix: str = "") -> Iterator[str]:
    for entry in patterns:
        route = f"{prefix}{entry.pattern}"
        if isinstance(entry, URLResolver):
            yield from walk(entry.url_patterns, route)
        elif isinstance(entry, URLPattern):
            yield route


def test_the_public_list_names_only_routes_that_exist() -> None:
    assert set(routes()) >= PUBLIC


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("route", [route for route in routes() if route not in PUBLIC])
def test_a_route_that_is_not_public_needs_a_credential(client: Client, route: str) -> None:
    path = "/" + route.replace("{}", "run-0123456789ab")
    for method in METHODS:
        answer = client.generic(method, path)
        assert refused(answer), f"{method} {path}: {answer.status_code} {answer.content[:200]!r}"


def refused(answer: Any) -> bool:
    """401; for a page the redirect to sign-in; 405 says nothing of what is there."""
    sign_in = ("/sign-in", "/admin/login/")  # which leads on to /sign-in
    to_sign_in = answer.status_code == 302 and answer.headers["Location"].startswith(sign_in)
    return to_sign_in or answer.status_code in (401, 405)
