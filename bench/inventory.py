"""`python -m bench inventory [--quick]`: what does a look at 500 containers of 60 runs cost?"""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import django
from django.core.management import call_command

from bench.inventory_engine import CONTAINERS, INSTALLATION, RUNS
from bench.report import end_in_order, is_quick, publish

TURNS: Final = 5 if is_quick() else 30
IDLE_S: Final = 5.0 if is_quick() else 30.0
GOAL_CPU_S: Final = 0.3
LISTS: Final = ("containers/json?all=1", "networks", "volumes")


@contextmanager
def engine(folder: Path) -> Iterator[tuple[str, Path]]:
    """Provide the engine's socket, and the file with a line for each request to it."""
    address, log = str(folder / "engine.sock"), folder / "requests.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.inventory_engine", address], stdout=out
        )
        try:
            while not Path(address).exists():
                time.sleep(0.05)
            yield address, log
        finally:
            process.terminate()
            process.wait()


class SocketConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("engine")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


def read_lists(address: str) -> int:
    """The floor: a client of the standard library that reads the three lists as Python objects."""
    connection = SocketConnection(address)
    found = 0
    for path in LISTS:
        connection.request("GET", f"/v1.43/{path}")
        answer: Any = json.loads(connection.getresponse().read())
        found += len(answer["Volumes"] if path == "volumes" else answer)
    connection.close()
    return found


def prepare(folder: Path) -> None:
    """A store on SQLite in the folder, settings as in tests, and no log."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "platform_site.settings.test"
    os.environ |= {"DB_DRIVER": "sqlite", "SQLITE_PATH": str(folder / "store.sqlite3")}
    django.setup()
    logging.disable(logging.CRITICAL)
    call_command("migrate", verbosity=0)


def fill_store() -> None:
    """60 runs with the steps of the 500 containers, half of them over."""
    from apps.agents.api import Registration, register
    from apps.executions.models import Execution, Snapshot, Step
    from kernel import clock

    now = clock.now()
    snapshot = Snapshot.objects.create(digest="bench", document=b"", created_at=now)
    register(Registration(agent_id="runner:bench", incarnation="1", kind="runner", pid=1))
    for number in range(RUNS):
        is_over = number % 2 == 1
        row = Execution.objects.create(
            run_id=f"run-{number:012x}",
            workspace_id="00000000-0000-4000-8000-000000000001",
            owner_id="00000000-0000-4000-8000-000000000001",
            snapshot=snapshot,
            suite_id="shop",
            suite_title="Shop",
            backend_id="local-docker",
            backend_label="Local Docker",
            backend_kind="local",
            trigger="API",
            status="Failed" if is_over else "Booting",
            started_at=now,
            finished_at=now - timedelta(minutes=5) if is_over else None,
            updated_at=now,
            bound_agent_id="" if is_over else "runner:bench",
        )
        Step.objects.bulk_create(
            Step(
                execution=row,
                index=index + 1,
                step_id=f"step-{container}",
                name=f"step-{container}",
                kind="service",
                variant="run",
                level=0,
                status="healthy",
                job_id=f"job-{container:022d}",
                backend_id="local-docker",
                cpu_percent=1.5,
                memory_bytes=10_000_000,
            )
            for index, container in enumerate(range(number, CONTAINERS, RUNS))
        )


def measure(work: Callable[[], object]) -> tuple[float, float, float]:
    """Return the medians of CPU and of elapsed seconds, and the most CPU, after one turn more."""
    work()
    cpu, elapsed = [], []
    for _ in range(TURNS):
        began, began_cpu = time.perf_counter(), time.process_time()
        work()
        cpu.append(time.process_time() - began_cpu)
        elapsed.append(time.perf_counter() - began)
    return statistics.median(cpu), statistics.median(elapsed), max(cpu)


def count_requests(log: Path) -> int:
    return len(log.read_text().splitlines())


async def measure_idle(runtime: Any, log: Path) -> tuple[int, float]:
    """Return the requests to the engine without a watcher, and the CPU seconds of a second."""
    from apps.workers.inventory import InventoryLoops

    before, began_cpu = count_requests(log), time.process_time()
    setup: Any = SimpleNamespace(agent_id="runner:bench", runtime=runtime)
    loops = InventoryLoops(lambda: [setup])
    tasks = [asyncio.create_task(loops.keep_looking()), asyncio.create_task(loops.keep_sweeping())]
    await asyncio.sleep(IDLE_S)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    idle_cpu = (time.process_time() - began_cpu) / IDLE_S
    requests = count_requests(log) - before
    return requests, idle_cpu


async def measure_all(address: str, log: Path) -> tuple[list[list[object]], int, float]:
    from apps.environments import api, selectors
    from apps.streams.api import on_store_thread
    from apps.workers import inventory
    from apps.workers.inventory import ReachedRuntime, look_at
    from worker.domain.runtime import RuntimeOptions
    from worker.runtimes.docker.runtime import DockerRuntime

    runtime = DockerRuntime(
        RuntimeOptions(
            state_dir=log.parent, installation_id=INSTALLATION, address=f"unix://{address}"
        )
    )
    engine_, rows = ReachedRuntime("runner:bench", runtime), []
    cpu, elapsed = list[float](), list[float]()
    for turn in range(TURNS + 1):
        began, began_cpu = time.perf_counter(), time.process_time()
        gone = await on_store_thread(inventory.find_gone_supervisors)
        look = await look_at(engine_, gone)
        await on_store_thread(api.record_look, look)
        if turn:
            cpu.append(time.process_time() - began_cpu)
            elapsed.append(time.perf_counter() - began)
    assert look.available, "the engine of the bench did not answer"
    assert len(look.resources) == 2 * CONTAINERS + 2 * RUNS, len(look.resources)
    rows.append(["one look, stored", statistics.median(cpu), statistics.median(elapsed), max(cpu)])

    viewer = selectors.Viewer(workspaces=None, may_reap=True)
    snapshot = await on_store_thread(
        measure, lambda: json.dumps(selectors.snapshot_of(selectors.read_inventory(), viewer))
    )
    rows.append(["one snapshot as JSON", *snapshot])

    requests, idle_cpu = await measure_idle(runtime, log)
    await runtime.close()
    return rows, requests, idle_cpu


def main() -> None:
    end_in_order()
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as name, engine(Path(name)) as found:
        address, log = found
        prepare(Path(name))
        fill_store()
        assert read_lists(address) == 2 * CONTAINERS + 2 * RUNS
        floor = measure(lambda: read_lists(address))
        rows, requests, idle_cpu = asyncio.run(measure_all(address, log))
    table: list[list[object]] = [["the three lists, read and parsed (floor)", *floor], *rows]
    table.append([f"a second of {IDLE_S:g} without a watcher", idle_cpu, "", ""])
    cpu_s = float(rows[0][1])  # type: ignore[arg-type]
    is_met = cpu_s < GOAL_CPU_S and not requests
    publish(
        "inventory",
        f"What does a look at {CONTAINERS} containers of {RUNS} runs cost, with as many volumes "
        "and a network for each run? The engine answers from memory over a Unix socket, in a "
        "process of its own; the floor is a client of the standard library that reads the same "
        "answers. Seconds, medians of CPU and elapsed, and the most CPU of a turn.",
        ("what", "CPU s", "elapsed s", "most CPU s"),
        [[row[0], *(_rounded(value) for value in row[1:])] for row in table],
        f"One look takes {cpu_s:.3f} s of CPU (goal: less than {GOAL_CPU_S}), and nobody asked the "
        f"engine without a watcher ({requests} requests): {'met' if is_met else 'NOT met'}.",
    )
    sys.exit(0 if is_met else 1)


def _rounded(value: object) -> object:
    return f"{value:.4f}" if isinstance(value, float) else value


if __name__ == "__main__":
    main()
