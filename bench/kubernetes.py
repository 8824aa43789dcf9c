"""`python -m bench kubernetes [--quick]`: what does a step cost on Kubernetes over its own time?

Chains of steps on a real cluster, each after the one before, with pods that are started ahead
(START_AHEAD) and without. What a step costs is the time from the end of the step before until its
own end, as the control plane has them, less its own time. Beside it the floor of a cold start: pods
of one container, created through the API one after the other and watched until they have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from bench.report import end_in_order, is_quick, publish
from bench.step_chains import IMAGE, Way, partita
from worker.domain.cluster_options import ClusterOptions
from worker.domain.runtime import RuntimeOptions
from worker.runtimes.kubernetes.access import open_access
from worker.runtimes.kubernetes.client import ClusterClient
from worker.runtimes.kubernetes.objects import STEP_CONTAINER, Pod
from worker.runtimes.kubernetes.pod_watch import PodWatch

STEPS: Final = {0: 4, 2: 3} if is_quick() else {0: 20, 2: 8}  # own time in s → of a chain
AHEAD: Final = (0, 2)
GOAL_S: Final = {0: 2.5, 2: 0.3}  # START_AHEAD → s over the own time of a step
LABEL: Final = "partita-bench"


def floor_of(kubeconfig: str) -> Way:
    """Return how pods are started that nothing else is wanted of."""

    def measure(own_s: int) -> list[float]:
        return asyncio.run(_run_pods(kubeconfig, own_s, STEPS[own_s] - 1))

    return measure


async def _run_pods(kubeconfig: str, own_s: int, count: int) -> list[float]:
    taken = []
    async with open_cluster(kubeconfig) as (client, pods):
        for _ in range(count):
            began = time.perf_counter()
            name = f"bench-{secrets.token_hex(4)}"
            await client.create("pods", bare_pod(name, own_s), Pod)
            await pods.until(name, lambda pod: pod.step.terminated is not None)
            taken.append(time.perf_counter() - began)
            await client.delete("pods", name)
    return taken


@asynccontextmanager
async def open_cluster(kubeconfig: str) -> AsyncGenerator[tuple[ClusterClient, PodWatch]]:
    options = RuntimeOptions(
        state_dir=Path(), installation_id="bench", cluster=ClusterOptions(kubeconfig=kubeconfig)
    )
    client = ClusterClient(*open_access(options))
    pods = PodWatch(client, f"{LABEL}=true")
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(client.close)
        stack.push_async_callback(pods.close)
        pods.start()
        yield client, pods


def bare_pod(name: str, own_s: int) -> dict[str, object]:
    command = ["sh", "-c", f"sleep {own_s}"]
    container = {"name": STEP_CONTAINER, "image": IMAGE, "command": command}
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [{**container, "imagePullPolicy": "IfNotPresent"}],
    }
    about = {"name": name, "labels": {LABEL: "true"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


def measure(kubeconfig: str) -> list[list[object]]:
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as name, ExitStack() as open_ways:
        ways: dict[str, Way] = {
            f"Partita, START_AHEAD={ahead}": open_ways.enter_context(
                partita(
                    Path(name) / str(ahead),
                    ahead,
                    STEPS,
                    'commands = ["sleep {own}"]',
                    KUBECONFIG=kubeconfig,
                    BENCH_RUNTIME="kubernetes",
                )
            )
            for ahead in AHEAD
        }
        ways["a bare pod, cold"] = floor_of(kubeconfig)
        rows: list[list[object]] = []
        for own_s in STEPS:
            for how, way in ways.items():
                over = [each - own_s for each in way(own_s)]
                rows.append([how, own_s, statistics.median(over), min(over), max(over)])
                print(rows[-1], flush=True)
    return rows


def main() -> None:
    end_in_order()
    kubeconfig = os.environ.get("TEST_KUBECONFIG", "")
    if not kubeconfig:
        raise SystemExit("this benchmark needs a cluster: `tests.support.run --bench kubernetes`")
    before = os.getloadavg()[0]
    rows = measure(kubeconfig)
    load = f"The machine had a load of {before:.0f} before and of {os.getloadavg()[0]:.0f} after."
    reached = {(row[0], row[1]): float(str(row[2])) for row in rows}
    own_s = max(STEPS)
    verdicts = []
    is_met = True
    for ahead, goal_s in GOAL_S.items():
        over_s = reached[f"Partita, START_AHEAD={ahead}", own_s]
        is_met = is_met and over_s <= goal_s
        verdicts.append(
            f"A step of {own_s} s costs {over_s:.2f} s over its own time with START_AHEAD={ahead} "
            f"(goal: {goal_s:g} s): {'met' if over_s <= goal_s else 'NOT met'}."
        )
    publish(
        "kubernetes",
        f"What does a step of {IMAGE} `sleep` cost over its own time on a cluster of one node, in "
        f"chains of {' and '.join(map(str, STEPS.values()))} steps? Seconds from the end of the "
        "step before to its own end, less its own time.",
        ("how", "own time s", "s over it (median)", "best", "worst"),
        rows,
        " ".join([*verdicts, load]),
    )
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
