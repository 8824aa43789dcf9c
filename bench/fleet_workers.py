"""`python -m bench.fleet_workers FOLDER SECRET COUNT URL…`: remote workers on no-op runtimes.

Each has an identity, a connection and files of its own, and knows one of the URLs. The process ends
with its standard input; then it prints {"claims": [[job id, idle since, received at], …]}, both in
seconds of the epoch. A worker is idle while it has a place and no step is given to it.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

from bench.stand import answer
from worker import host
from worker.control_plane.client import ControlPlaneClient
from worker.control_plane.held_jobs import HeldJobs
from worker.control_plane.http import HttpControlPlane, WorkerRegistration
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import RuntimeOptions
from worker.runtimes import runtimes
from worker.service import ControlPlaneConnection, WorkerService
from worker.supervisor import event_loop
from worker.supervisor.attempt import SupervisorOptions

CAPACITY: Final = 4  # steps at once, the default of AGENT_CONCURRENCY
BACKEND: Final = "edge"
Claim = tuple[str, float, float]


class WatchedControlPlane(HttpControlPlane):
    """Notes since when the worker has waited for each step that it gets."""

    claims: list[Claim]
    _idle_since = 0.0

    async def claim(self, limit: int) -> Sequence[Mapping[str, Any]]:
        self._idle_since = self._idle_since or time.time()
        specs = await super().claim(limit)
        now = time.time()
        self.claims += [(spec["jobId"], self._idle_since, now) for spec in specs]
        self._idle_since = 0.0 if specs else self._idle_since
        return specs


async def connect(name: str, url: str, secret: str, folder: Path, claims: list[Claim]) -> Any:
    """Return a worker that has registered, as the worker process sets one up."""
    client = ControlPlaneClient(url, secret)
    held = HeldJobs(folder / "held", secret)
    registration = WorkerRegistration(
        agent_id=name,
        incarnation=str(uuid.uuid4()),
        name=name,
        host_url="",
        backends=(BACKEND,),
        capabilities=("service", "task", "test"),
        labels={},
        version="1",
    )
    control_plane = WatchedControlPlane(client, registration, held)
    control_plane.claims = claims
    installation = await control_plane.discover_installation()
    owner = UnitOwner(installation_id=installation, orchestrator_id=name, host_id=host.host_id())
    runtime = runtimes["no-op"].open(RuntimeOptions(state_dir=folder, installation_id=installation))
    options = SupervisorOptions(owner=owner, state_dir=folder, capacity=CAPACITY)
    connection = ControlPlaneConnection(control_plane=control_plane, client=client, held=held)
    return WorkerService(runtime, options, connection)


async def serve(folder: Path, secret: str, count: int, urls: Sequence[str]) -> list[Claim]:
    claims: list[Claim] = []
    places = enumerate(islice(cycle(urls), count))
    services = [
        await connect(f"{folder.name}-{number}", url, secret, folder / str(number), claims)
        for number, url in places
    ]
    running = [asyncio.create_task(each.run()) for each in services]
    answer(ready=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await asyncio.gather(*(each.close() for each in services))
    return claims


def main() -> None:
    importlib.import_module("bench.noop_runtime")  # registers itself
    folder, secret, count, *urls = sys.argv[1:]
    answer(claims=event_loop.run(serve(Path(folder), secret, int(count), urls)))


if __name__ == "__main__":
    main()
