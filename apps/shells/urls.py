"""Paths below `/api/v1/`, and the WebSocket: shells in the environments of runs."""

from __future__ import annotations

from django.urls import path

from apps.shells.rest.views import ShellViewSet
from apps.shells.rest.websocket import ShellConsumer

app_name = "shells"
_SHELLS = "executions/<str:executionId>/shells"

urlpatterns = [
    path(
        _SHELLS,
        ShellViewSet.as_view({"get": "list_shells", "post": "open_shell"}),
        name="list",
    ),
    path(
        f"{_SHELLS}/<str:shellId>",
        ShellViewSet.as_view({"delete": "end_shell"}, detail=True),
        name="shell",
    ),
]

websocket_urlpatterns = [path("ws/shells/<str:shellId>", ShellConsumer.as_asgi())]
