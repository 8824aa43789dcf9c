"""`python -m bench hostile_suites [--quick]`: HTTP while hostile suites are evaluated."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import psutil

from bench.report import end_in_order, is_quick, publish
from bench.sse_client import percentile
from tests.support.cluster import Cluster

GOAL_MS: Final = 100
ROUNDS: Final = 15 if is_quick() else 100
HOSTILE: Final = (  # what 5 s, 256 MiB and a million instructions end
    "x = [n * n for n in range(2000000)]\n",
    "def f():\n    for i in range(1000000000):\n        pass\nf()\n",
    'x = "a" * 2000000000\n',
    "x = [1] * 100000000\n",
    'x = {str(n): "y" * 1000 for n in range(10000000)}\n',
    "def f():\n    for i in range(1000):\n        x = 'a' * 10000000\nf()\n",
    "x = sorted([str(n) for n in range(3000000)])\n",
)
ROUTES: Final = ("/healthz", "/api/v1/suites", "/api/v1/executions", "/sign-in")
COLUMNS: Final = ("while", "route", "requests", "p50 ms", "p95 ms", "max ms", "evaluators")


@contextmanager
def changing(suites: Path) -> Iterator[None]:
    """Sixty hostile suites, changed without end: there are always some to evaluate."""
    over = threading.Event()

    def write() -> None:
        number = 0
        while not over.is_set():
            folder = suites / f"hostile-{number % 60:02}"
            folder.mkdir(exist_ok=True)
            text = HOSTILE[number % len(HOSTILE)]
            (folder / "suite.star").write_text(f"# {number}\n{text}")
            number += 1
            over.wait(0.0 if number < 60 else 0.2)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def measured(cluster: Cluster, what: str) -> list[tuple[object, ...]]:
    """One kept-alive connection, the routes in turn."""
    taken: dict[str, list[float]] = {route: [] for route in ROUTES}
    evaluators: set[int] = set()
    headers = dict(cluster.client.headers)
    with httpx.Client(base_url=cluster.url, headers=headers, timeout=30) as client:
        client.get("/healthz")
        for _ in range(ROUNDS):
            for route in ROUTES:
                started = time.perf_counter()
                client.get(route).raise_for_status()
                taken[route].append((time.perf_counter() - started) * 1000)
            evaluators.add(_evaluators(cluster))
    return [
        (
            what, route, len(all_ms), round(percentile(all_ms, 0.5), 1),
            round(percentile(all_ms, 0.95), 1), round(max(all_ms), 1), max(evaluators),
        )
        for route, all_ms in taken.items()
    ]  # fmt: skip


def _evaluators(cluster: Cluster) -> int:
    web = cluster.processes["web"]._process  # noqa: SLF001
    assert web
    return len(psutil.Process(web.pid).children(recursive=True))


def main() -> None:
    end_in_order()
    environment = {"DB_DRIVER": "sqlite", "REDIS_ADDR": ""}
    with (
        tempfile.TemporaryDirectory(prefix="partita-bench-") as folder,
        Cluster(Path(folder) / "cluster", parts=["web"], environment=environment) as cluster,
    ):
        cluster.get("/suites")
        rows = measured(cluster, "nothing else")
        with changing(cluster.folder / "suites"):
            time.sleep(3)
            rows += measured(cluster, "60 hostile suites are evaluated")
    worst = max(float(str(row[4])) for row in rows if row[0] != "nothing else")
    publish(
        "hostile_suites",
        "One client over HTTP on a kept-alive connection, a real server on SQLite; beside it sixty "
        "suite.star files that use up time or memory are evaluated and changed without end.",
        COLUMNS,
        rows,
        f"p95 under {GOAL_MS} ms on every route: {'met' if worst < GOAL_MS else 'MISSED'}"
        f" ({worst:.0f} ms)",
    )


if __name__ == "__main__":
    main()
