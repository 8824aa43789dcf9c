"""Health, description, static files, and the routes that are still to come."""

from __future__ import annotations

from django.urls import path

from apps.system.domain.later import LATER, MOCK_ROUTES
from apps.system.rest.documentation import DocsView, SchemaView
from apps.system.rest.later import later_view, mock_route
from apps.system.views.health import healthz, readyz, readyz_subsystem
from apps.system.views.static_files import static_file

app_name = "system"

_HEALTH = [
    path("healthz", healthz),
    path("readyz", readyz),
    path("readyz/<str:subsystem>", readyz_subsystem),
]
urlpatterns = [
    *_HEALTH,
    *(path(f"api/v1/system/{entry.pattern}", entry.callback) for entry in _HEALTH),
    path("api/v1/schema", SchemaView.as_view(), name="schema"),
    path("api/v1/docs", DocsView.as_view(), name="docs"),
    path("static/<path:path>", static_file, name="static"),
    *(path(route, mock_route) for route in MOCK_ROUTES),
    *(path(f"api/v1/{route}", later_view(methods)) for route, methods in LATER.items()),
]
