"""Paths below `/api/v1/`: environments."""

from __future__ import annotations

from django.urls import path

from apps.environments.rest import streams
from apps.environments.rest.views import SandboxViewSet

app_name = "environments"
urlpatterns = [
    path("sandboxes", SandboxViewSet.as_view({"get": "snapshot"}), name="list"),
    path("sandboxes/events", streams.events, name="events"),
    path("sandboxes/reap-all", SandboxViewSet.as_view({"post": "reap_all"}), name="reap-all"),
    path(
        "sandboxes/<str:sandboxId>/reap",
        SandboxViewSet.as_view({"post": "reap"}, detail=True),
        name="reap",
    ),
]
