"""Stop requests to workers at their own address, so that jobs end before the next lease call.

Best effort (reference: control-plane 15.3): a worker that is not reached polls anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import httpx

from apps.agents import api as agents
from apps.executions import api as executions
from apps.workers import conf
from kernel.addresses import LOCAL_TOO, AddressError, Resolver, read_base_url, resolve
from kernel.pinned_http import pinned_client
from worker.credentials import derived_token

log = logging.getLogger("partita.workers")
WITHIN_S: Final = 2.0
_AT_ONCE: Final = 8  # connections to one worker
_HEARD: Final = (HTTPStatus.OK, HTTPStatus.NOT_FOUND)  # 404: it has no such job any more


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """The jobs that one worker must stop, and its address."""

    agent_id: str
    host_url: str
    jobs: tuple[executions.JobToStop, ...]


def send_stop_requests(run_id: str) -> None:
    """Ask the workers of a run to stop its jobs, and to clean up if the run is over.

    Return within about 2 s. Do not call it within a transaction.
    """
    secret = conf.agent_secret()
    requests = _stop_requests(run_id) if secret else []
    if requests:
        asyncio.run(send_to_workers(requests, secret))


def _stop_requests(run_id: str) -> list[StopRequest]:
    """Return a request for each online worker that has an address."""
    jobs = executions.jobs_to_stop(run_id)
    if not jobs:
        return []
    urls = {agent.agent_id: agent.host_url for agent in agents.online_agents() if agent.host_url}
    by_agent: defaultdict[str, list[executions.JobToStop]] = defaultdict(list)
    for job in jobs:
        by_agent[job.agent_id].append(job)
    return [
        StopRequest(agent_id=agent_id, host_url=urls[agent_id], jobs=tuple(theirs))
        for agent_id, theirs in by_agent.items()
        if agent_id in urls
    ]


async def send_to_workers(
    requests: Iterable[StopRequest], secret: str, *, resolver: Resolver = resolve
) -> None:
    """Send all requests concurrently; each has its own time limit."""
    await asyncio.gather(*(_send_to_worker(each, secret, resolver) for each in requests))


async def _send_to_worker(request: StopRequest, secret: str, resolver: Resolver) -> None:
    headers = {"Authorization": f"Bearer {derived_token(secret, request.agent_id)}"}
    try:
        base = read_base_url(request.host_url, LOCAL_TOO)
        async with (
            asyncio.timeout(WITHIN_S),
            pinned_client(
                LOCAL_TOO, resolver=resolver, connections=_AT_ONCE, timeout=None, headers=headers
            ) as client,
        ):
            await asyncio.gather(*(_send(client, base, job) for job in request.jobs))
    except AddressError as error:
        log.info("%s cannot be called: %s", request.agent_id, error)
    except TimeoutError:
        log.info("%s did not answer within %g s; it will poll", request.agent_id, WITHIN_S)


async def _send(client: httpx.AsyncClient, base: str, job: executions.JobToStop) -> None:
    what = "cleanup" if job.run_is_over else "cancel"
    url = f"{base}/api/v1/agent/jobs/{job.job_id}/{what}"
    try:
        async with client.stream("POST", url) as answer:
            status = answer.status_code
    except httpx.HTTPError as error:
        log.info("%s could not be asked to %s %s: %s", job.agent_id, what, job.job_id, error)
        return
    level = logging.DEBUG if status in _HEARD else logging.INFO
    log.log(level, "%s answered %d to %s of %s", job.agent_id, status, what, job.job_id)
