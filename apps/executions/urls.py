"""Paths below `/api/v1/`: executions and the engine overview."""

from __future__ import annotations

from django.urls import path, re_path

from apps.executions.rest import shared_stream, streams, views
from apps.executions.rest.websocket import NoSuchSocket, RunConsumer

app_name = "executions"
_RUN = "executions/<str:executionId>"

urlpatterns = [
    path("executions", views.ExecutionListView.as_view(), name="list"),
    path("executions/launch-suites", views.LaunchSuitesView.as_view(), name="launch-suites"),
    path("executions/overview", views.OverviewView.as_view(), name="overview"),
    path(_RUN, views.ExecutionDetailView.as_view(), name="detail"),
    path(f"{_RUN}/cancel", views.CancelView.as_view(), name="cancel"),
    path(f"{_RUN}/rerun", views.RerunView.as_view(), name="rerun"),
    path(f"{_RUN}/events", streams.events, name="events"),
    path(f"{_RUN}/probes", streams.probes, name="probes"),
    path(f"{_RUN}/logs", streams.logs, name="logs"),
    path(f"{_RUN}/logs/download", streams.log_download, name="log-download"),
    path(f"{_RUN}/logs/search", views.LogSearchView.as_view(), name="log-search"),
    path(f"{_RUN}/artifacts/<str:artifactId>", views.ArtifactView.as_view(), name="artifact"),
    path(f"{_RUN}/junit", views.JUnitView.as_view(), name="junit"),
    path("engine/overview", views.OverviewView.as_view(), name="engine-overview"),
    path("engine/overview/stream", streams.overview, name="engine-overview-stream"),
    path("streams", shared_stream.shared, name="streams"),
]

websocket_urlpatterns = [
    path("ws/executions/<str:executionId>", RunConsumer.as_asgi()),
    re_path("", NoSuchSocket.as_asgi()),
]
