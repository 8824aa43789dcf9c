"""Health and readiness, each under two paths."""

from __future__ import annotations

from django.urls import path

from apps.health.views import healthz, readyz, readyz_subsystem

app_name = "health"

_ROUTES = [
    path("healthz", healthz),
    path("readyz", readyz),
    path("readyz/<str:subsystem>", readyz_subsystem),
]
urlpatterns = [
    *_ROUTES,
    *(path(f"api/v1/system/{route.pattern}", route.callback) for route in _ROUTES),
]
