"""Paths below `/api/v1/`: agents, and the protocol by which they get and report work."""

from __future__ import annotations

from django.urls import path
from rest_framework.routers import SimpleRouter

from apps.workers.rest import agents, claims, jobs

app_name = "workers"
_JOB = "agent-control/jobs/<str:jobId>"

_router = SimpleRouter(trailing_slash=False, use_regex_path=False)
_router.register("agents", agents.AgentViewSet, "agents")

urlpatterns = [
    path("agents/register", agents.RegisterView.as_view(), name="register"),
    *_router.urls,
    path("agents/<str:agentId>/drain", agents.DrainView.as_view(), name="drain"),
    path("agents/<str:agentId>/resume", agents.ResumeView.as_view(), name="resume"),
    path("agents/<str:agentId>/heartbeat", agents.HeartbeatView.as_view(), name="heartbeat"),
    path("agent-control/claims/next", claims.ClaimView.as_view(), name="claim"),
    path(f"{_JOB}/lease", jobs.LeaseView.as_view(), name="lease"),
    path(f"{_JOB}/state", jobs.StateView.as_view(), name="state"),
    path(f"{_JOB}/logs", jobs.LogsView.as_view(), name="logs"),
    path(f"{_JOB}/content", jobs.ContentView.as_view(), name="content"),
    path(f"{_JOB}/artifacts", jobs.ArtifactsView.as_view(), name="artifacts"),
    path(f"{_JOB}/complete", jobs.CompleteView.as_view(), name="complete"),
]
