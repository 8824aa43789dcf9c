"""Paths below `/api/v1/`: executions and the engine overview."""

from __future__ import annotations

from django.urls import path, re_path
from rest_framework.routers import SimpleRouter

from apps.executions.rest import repeats, shared_stream, streams, views
from apps.executions.rest.consumer import NoSuchSocket
from apps.executions.rest.repeats import RepeatViewSet
from apps.executions.rest.websocket import RunConsumer

app_name = "executions"
_RUN = "executions/<str:executionId>"
_REPEAT = f"{_RUN}/repeats/<str:repeatId>"
_router = SimpleRouter(trailing_slash=False, use_regex_path=False)
_router.register("executions", views.ExecutionViewSet, "executions")

urlpatterns = [
    path(f"{_RUN}/artifacts/archive", streams.artifact_archive, name="artifact-archive"),
    *_router.urls,
    path(f"{_RUN}/events", streams.events, name="events"),
    path(f"{_RUN}/probes", streams.probes, name="probes"),
    path(f"{_RUN}/logs", streams.logs, name="logs"),
    path(f"{_RUN}/logs/download", streams.log_download, name="log-download"),
    path(
        f"{_RUN}/repeats",
        RepeatViewSet.as_view({"get": "list", "post": "create"}),
        name="repeats",
    ),
    path(_REPEAT, RepeatViewSet.as_view({"get": "retrieve"}, detail=True), name="repeat"),
    path(
        f"{_REPEAT}/cancel",
        RepeatViewSet.as_view({"post": "cancel"}, detail=True),
        name="repeat-cancel",
    ),
    path(f"{_REPEAT}/logs", repeats.logs, name="repeat-logs"),
    path(
        f"{_REPEAT}/artifacts/<str:artifactId>",
        RepeatViewSet.as_view({"get": "artifact"}, detail=True),
        name="repeat-artifact",
    ),
    path(
        "engine/overview",
        views.ExecutionViewSet.as_view({"get": "overview"}),
        name="engine-overview",
    ),
    path("engine/overview/stream", streams.overview, name="engine-overview-stream"),
    path("streams", shared_stream.shared_stream, name="streams"),
]

websocket_urlpatterns = [
    path("ws/executions/<str:executionId>", RunConsumer.as_asgi()),
]
no_such_socket = re_path("", NoSuchSocket.as_asgi())  # after the sockets of all apps
