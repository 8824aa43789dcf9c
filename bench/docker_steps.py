"""What a container step costs beside `docker run` with the same network, volume and limits.

20 steps of busybox `true` through launch, store, supervisor and Docker runtime, one after another
and 8 at once.
"""

from __future__ import annotations

import os
import secrets
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bench import stand
from bench.report import publish

STEPS = 20
AT_ONCE = (1, 8)
ROUNDS = 5
GOAL_PERCENT = 15
IMAGE = "busybox:1.36"
SUITE = """load("@partita/runtime", "task")

before = []
for n in range({steps}):
    step = task.run("step-%d" % n, image = "{image}", command = ["true"], after = before)
    before = [step] if {serial} else []
"""


class Ours:
    """`RUNNER_MAX_PARALLEL_STEPS` is what is at once."""

    def __init__(self, child: stand.Child) -> None:
        self._child = child

    def seconds(self, at_once: int) -> float:
        ended = self._child.ask(suite=f"steps-{at_once}")
        assert ended["status"] == "Healthy", ended
        return float(ended["seconds"])


def options_of_a_step(network: str, volume: str, alias: str) -> list[str]:
    """Return the options of `docker run` that every container step of ours has."""
    return [
        "--network", network, "--network-alias", alias,
        "-v", f"{volume}:/partita/workspace", "-v", "/partita/artifacts", "--init",
        "--memory", "512m", "--memory-swap", "512m", "--cpus", "1", "--pids-limit", "256",
        "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
        "--add-host", "host.docker.internal:host-gateway", "--log-driver", "json-file",
    ]  # fmt: skip


class DockerRun:
    """The command line, on a network and with a volume of the round's own."""

    def __init__(self, host: str) -> None:
        self._docker = ["docker", "-H", host]

    def seconds(self, at_once: int) -> float:
        began = time.perf_counter()
        with self._environment() as (network, volume), ThreadPoolExecutor(at_once) as threads:
            list(threads.map(lambda n: self._run(network, volume, n), range(STEPS)))
            ended = time.perf_counter()  # ours removes network and volume after the end, too
        return ended - began

    @contextmanager
    def _environment(self) -> Iterator[tuple[str, str]]:
        name = f"partita-bench-{secrets.token_hex(4)}"
        self._call("network", "create", name)
        self._call("volume", "create", name)
        try:
            yield name, name
        finally:
            self._call("network", "rm", name)
            self._call("volume", "rm", name)

    def _run(self, network: str, volume: str, n: int) -> None:
        options = options_of_a_step(network, volume, f"step-{n}")
        self._call("run", "--rm", *options, IMAGE, "true")

    def _call(self, *words: str) -> None:
        subprocess.run([*self._docker, *words], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def ours(folder: Path, at_once: int) -> Iterator[Ours]:
    source = SUITE.format(steps=STEPS, image=IMAGE, serial=at_once == 1)
    stand.suite(folder / "suites", f"steps-{at_once}", source)
    more = {"BENCH_RUNTIME": "docker", "RUNNER_MAX_PARALLEL_STEPS": str(at_once)}
    dsn = os.environ.get("TEST_POSTGRES_DSN", "")
    settings = stand.environment(folder, dsn=dsn, DOCKER_HOST=stand.docker_host(), **more)
    with stand.runner(settings, folder) as child:
        yield Ours(child)
    if dsn:
        stand.drop_database(settings, dsn)


def measure(at_once: int) -> tuple[list[float], list[float]]:
    """Seconds of each round, ours and the command line's, which take turns."""
    peer = DockerRun(stand.docker_host())
    with (
        tempfile.TemporaryDirectory(prefix="partita-bench-") as name,
        ours(Path(name), at_once) as mine,
    ):
        both: tuple[Callable[[int], float], ...] = (mine.seconds, peer.seconds)
        for each in both:
            each(at_once)  # the first round warms up
        rounds = [tuple(each(at_once) for each in both) for _ in range(ROUNDS)]
    return [one for one, _ in rounds], [other for _, other in rounds]


def main() -> None:
    rows: list[list[object]] = []
    verdicts = []
    for at_once in AT_ONCE:
        mine, theirs = measure(at_once)
        more = 100 * (statistics.median(mine) / statistics.median(theirs) - 1)
        for how, times in (("Partita", mine), ("docker run", theirs)):
            middle = statistics.median(times)
            rows.append([how, at_once, middle, middle / STEPS, min(times), max(times)])
        met = "met" if more <= GOAL_PERCENT else "MISSED"
        verdicts.append(f"{at_once} at once {more:+.0f} % ({met})")
    publish(
        "docker_steps",
        f"{STEPS} steps of {IMAGE} `true`: from launch to the commit of the end, beside `docker "
        "run` on an own network, with a volume and the same limits; wall seconds.",
        ("how", "at once", "s (median)", "s a step", "best", "worst"),
        rows,
        f"Wall time beside `docker run`, goal at most {GOAL_PERCENT} % more: {', '.join(verdicts)}",
    )


if __name__ == "__main__":
    main()
