"""All routes: each app's own, mounted where MOUNTS says."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from django.urls import URLPattern, URLResolver, include, path
from django.urls.resolvers import RoutePattern

MOUNTS: Final = {  # app → the prefix of its `urls.py`; the more special ones first
    "accounts": "api/v1/",
    "platform_settings": "api/v1/",
    "agents": "api/v1/",
    "oci": "api/v1/",
    "suites": "api/v1/",
    "catalog": "api/v1/",
    "mocks": "api/v1/",
    "executions": "api/v1/",
    "environments": "api/v1/",
    "shells": "api/v1/",
    "workers": "api/v1/",
    "social": "accounts/",
    "health": "",
    "http": "",
    "console": "",
}


def routes() -> list[URLPattern | URLResolver]:
    """Return the routes of the apps that have any."""
    return [
        path(prefix, include(f"apps.{app}.urls"))
        for app, prefix in MOUNTS.items()
        if find_spec(f"apps.{app}.urls") is not None
    ]


urlpatterns = [
    *routes(),
    # its modules are imported when somebody first goes there
    URLResolver(RoutePattern("admin/"), "platform_site.admin_urls", None, "admin", "admin"),
]

handler400 = "platform_site.error_handler.on_bad_request"
handler403 = "platform_site.error_handler.on_forbidden"
handler404 = "platform_site.error_handler.on_not_found"
handler500 = "platform_site.error_handler.on_server_error"
