"""A worker that the control plane calls at its own address (reference: control-plane 15.3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from apps.executions.api import JobToStop
from apps.workers.services.stop_requests import StopRequest, send_to_workers
from tests.apps.workers.conftest import Stage
from worker.application import WorkerApplication
from worker.domain.runtime import RemovedResources
from worker.supervisor.supervisor import Supervisor

SECRET = "the-shared-secret-of-these-tests"


class Worker:
    """The routes' view of a supervisor that really works."""

    agent_id = "edge-1"
    secret = SECRET

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def info(self) -> dict[str, Any]:
        return {}

    async def start(self, spec: Any, files: bytes | None) -> Any:
        raise NotImplementedError

    def cancel(self, job_id: str) -> bool:
        return self._supervisor.cancel(job_id)

    async def cleanup(self, job_id: str) -> RemovedResources | None:
        return None


@asynccontextmanager
async def called_at(supervisor: Supervisor) -> AsyncGenerator[str]:
    application = WorkerApplication(Worker(supervisor))
    server = uvicorn.Server(
        uvicorn.Config(application, port=0, log_level="warning", lifespan="off")
    )
    serving = asyncio.create_task(server._serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn tells nobody
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


@pytest.mark.parametrize("agent_id", ["edge-1", "edge-2"])
async def test_a_step_stops_by_a_call_before_any_lease_tells_it(stage: Stage, agent_id: str):
    """And only by a call with what the secret makes of this worker's own name (invariant 8)."""
    async with stage.supervisor() as supervisor, called_at(supervisor) as url:
        job = await stage.add("out:begun", "serve")
        await stage.store.until(lambda: job.texts == ["begun"])

        ending = JobToStop(agent_id=agent_id, job_id=job.job.job_id)
        await send_to_workers(
            [StopRequest(agent_id=agent_id, host_url=url, jobs=(ending,))], SECRET
        )

        assert job.cancel_reason == "", "no lease had said so"
        if agent_id == "edge-1":
            assert (await stage.store.outcome(job)).status == "canceled"
        else:
            assert (job.outcome, supervisor.jobs) == (None, (job.job,))
