"""The port to the control plane, over the store itself and over the agent protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connections
from django.test import Client

from apps.agents import api as agents
from apps.executions.api import SupervisorSession
from apps.workers.control_plane.in_process import InProcessControlPlane
from worker.control_plane.client import ControlPlaneClient
from worker.control_plane.held_jobs import HeldJobs
from worker.control_plane.http import HttpControlPlane, WorkerRegistration
from worker.domain.control_plane import ControlPlane

AGENT_ID = "edge-1"
SECRET = "the-shared-secret-of-these-tests"


@pytest.fixture(autouse=True)
def _control_plane(transactional_db: Any, settings: Any, tmp_path: Path) -> None:
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    settings.AGENT_SHARED_SECRET = SECRET


@pytest.fixture(params=["in the store", "over HTTP"])
async def plane(request: Any, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """Registered as AGENT_ID."""
    made = _direct() if request.param == "in the store" else _http(tmp_path)
    await made.register((), runtime_available=True)
    yield made
    await made.close()


def _direct() -> ControlPlane:
    registration = agents.Registration(agent_id=AGENT_ID, incarnation="first", kind="runner")
    claimant = SupervisorSession(
        agent_id=AGENT_ID,
        incarnation="first",
        kinds=("local",),
        backends=(AGENT_ID,),
        capabilities=(),
    )
    return InProcessControlPlane(registration, claimant)


def _http(folder: Path) -> ControlPlane:
    registration = WorkerRegistration(
        agent_id=AGENT_ID,
        incarnation="first",
        name="",
        host_url="",
        backends=(),
        capabilities=(),
        labels={},
        version="1",
    )
    calls = ControlPlaneClient(
        "http://partita.test",
        SECRET,
        transport=httpx.MockTransport(_answered),
        blocking_transport=httpx.MockTransport(_answer),
    )
    return HttpControlPlane(calls, registration, HeldJobs(folder / "held", SECRET))


async def _answered(request: httpx.Request) -> httpx.Response:
    return await asyncio.to_thread(_answer, request)


def _answer(request: httpx.Request) -> httpx.Response:
    """By the routes themselves, on a thread that leaves no connection to the store behind."""
    try:
        answer = Client().generic(
            request.method,
            request.url.path,
            request.content,
            content_type=request.headers["Content-Type"],
            headers={"Authorization": request.headers["Authorization"]},
        )
    finally:
        connections.close_all()
    return httpx.Response(
        answer.status_code,
        content=answer.content,
        headers={"Content-Type": answer.headers.get("Content-Type", "")},
    )
