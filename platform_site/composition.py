"""The wiring between apps: whose routes are mounted where."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from django.urls import URLPattern, URLResolver, include, path

MOUNTS: Final = {  # app → the prefix of its `urls.py`; the more special ones first
    "accounts": "api/v1/auth/",
    "platform_settings": "api/v1/",
    "agents": "api/v1/",
    "suites": "api/v1/",
    "profiles": "api/v1/",
    "executions": "api/v1/",
    "workers": "api/v1/",
    "health": "",
    "http": "",
    "console": "",
}


def routes() -> list[URLPattern | URLResolver]:
    return [
        path(prefix, include(f"apps.{app}.urls"))
        for app, prefix in MOUNTS.items()
        if has_routes(app)
    ]


def has_routes(app: str) -> bool:
    return find_spec(f"apps.{app}.urls") is not None
