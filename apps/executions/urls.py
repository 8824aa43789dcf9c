"""Paths below `/api/v1/`: executions and the engine overview."""

from __future__ import annotations

from django.urls import path, re_path
from rest_framework.routers import SimpleRouter

from apps.executions.rest import shared_stream, streams, views
from apps.executions.rest.consumer import NoSuchSocket
from apps.executions.rest.websocket import RunConsumer

app_name = "executions"
_RUN = "executions/<str:executionId>"
_router = SimpleRouter(trailing_slash=False, use_regex_path=False)
_router.register("executions", views.ExecutionViewSet, "executions")

urlpatterns = [
    *_router.urls,
    path(f"{_RUN}/events", streams.events, name="events"),
    path(f"{_RUN}/probes", streams.probes, name="probes"),
    path(f"{_RUN}/logs", streams.logs, name="logs"),
    path(f"{_RUN}/logs/download", streams.log_download, name="log-download"),
    path(
        "engine/overview",
        views.ExecutionViewSet.as_view({"get": "overview"}),
        name="engine-overview",
    ),
    path("engine/overview/stream", streams.overview, name="engine-overview-stream"),
    path("streams", shared_stream.shared, name="streams"),
]

websocket_urlpatterns = [
    path("ws/executions/<str:executionId>", RunConsumer.as_asgi()),
]
no_such_socket = re_path("", NoSuchSocket.as_asgi())  # after the sockets of all apps
