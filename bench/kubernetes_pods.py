"""`python -m bench kubernetes_pods [--quick]`: what do 500 pods cost the runner that watches them?

The nodes and pods are kwok's: known to a real API server, without machines. A process of its own
watches them by the runtime's own watch and waits for the end of each, as a runner with 500 steps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench import stand
from bench.kubernetes import LABEL, bare_pod
from bench.report import end_in_order, is_quick, publish
from tests.support.cluster_commands import kubectl
from tests.support.kubernetes.programs import BUILD_COMMAND, KWOK, KWOK_STAGES
from tests.support.processes import until

PODS: Final = 50 if is_quick() else 500
NODES: Final = 10
QUIET_S: Final = 10 if is_quick() else 60
ROUNDS: Final = 2 if is_quick() else 5
GOAL_CORE: Final = 0.05  # of a core, while the pods run and nothing changes
GOAL_GROWTH: Final = 1.05  # of the memory after the first round
START_S: Final = 300
FAKE: Final = "kwok.x-k8s.io/node"
COLUMNS: Final = ("while", "seconds", "CPU s", "of a core", "CPU ms a pod", "MiB after it")


@contextmanager
def fake_nodes(kubeconfig: str) -> Iterator[None]:
    """Run kwok, and as many nodes of it as the pods need."""
    words = [str(KWOK), f"--kubeconfig={kubeconfig}", f"--config={KWOK_STAGES}"]
    words += [f"--manage-nodes-with-annotation-selector={FAKE}=fake", "--cidr=10.95.0.0/16"]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(words, stdout=log, stderr=log) as process,
    ):
        try:
            names = [f"fake-{number}" for number in range(NODES)]
            _apply([_node(name) for name in names])
            yield
        finally:
            kubectl("delete", "nodes", "--selector", f"{FAKE}=fake", "--ignore-not-found")
            process.terminate()


def _node(name: str) -> dict[str, Any]:
    room = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    about = {"name": name, "labels": {FAKE: "fake"}, "annotations": {FAKE: "fake"}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": about,
        "spec": {"taints": [{"key": FAKE, "value": "fake", "effect": "NoSchedule"}]},
        "status": {"allocatable": room, "capacity": room},
    }


def _pod(name: str) -> dict[str, Any]:
    pod: dict[str, Any] = dict(bare_pod(name, 0))
    taint = {"key": FAKE, "operator": "Exists", "effect": "NoSchedule"}
    pod["spec"] = {**pod["spec"], "nodeSelector": {FAKE: "fake"}, "tolerations": [taint]}
    return pod


def _apply(objects: Sequence[dict[str, Any]]) -> None:
    all_of_them = {"apiVersion": "v1", "kind": "List", "items": objects}
    kubectl("create", "-f", "-", text=json.dumps(all_of_them))


class Watched:
    """The process that watches; each phase is a row."""

    def __init__(self, child: stand.Child) -> None:
        self._child = child
        self.rows: list[list[Any]] = []

    @contextmanager
    def phase(self, name: str, *, changes: int = 0) -> Iterator[None]:
        before, began = self._child.ask(), time.monotonic()
        yield
        after, took = self._child.ask(), time.monotonic() - began
        cpu_s = after["cpu_s"] - before["cpu_s"]
        each = 1000 * cpu_s / changes if changes else ""
        self.rows.append([name, took, cpu_s, cpu_s / took, each, after["memory"] / 2**20])
        print(self.rows[-1], flush=True)

    def bring(self, names: Sequence[str]) -> None:
        """Create the pods, wait for the end of each, and return once all run."""
        _apply([_pod(name) for name in names])
        self._child.ask(wait_for=list(names))
        self._wait("running", len(names))

    def remove(self) -> None:
        self._child.ask(forget=True)
        kubectl("delete", "pods", "--selector", f"{LABEL}=true", "--wait=false", "--grace-period=1")
        self._wait("known", 0)

    def _wait(self, what: str, number: int) -> None:
        until(
            lambda: self._child.ask()[what] == number,
            within_s=START_S,
            what=lambda: f"{number} pods {what}: {self._child.ask()}",
            each_s=0.5,
        )


def measure(kubeconfig: str, folder: Path) -> list[list[Any]]:
    command = [sys.executable, "-m", "bench.kubernetes_watcher"]
    with (
        fake_nodes(kubeconfig),
        stand.Child(command, os.environ, folder / "watcher.log") as child,
    ):
        watched = Watched(child)
        for number in range(1, ROUNDS + 1):
            names = [f"bench-{number}-{each}" for each in range(PODS)]
            with watched.phase(f"{PODS} pods come, round {number}", changes=PODS):
                watched.bring(names)
            if number == 1:
                with watched.phase("they run and nothing changes"):
                    time.sleep(QUIET_S)
            with watched.phase(f"they go, round {number}", changes=PODS):
                watched.remove()
    return watched.rows


def main() -> None:
    end_in_order()
    kubeconfig = os.environ.get("TEST_KUBECONFIG", "")
    if not kubeconfig:
        raise SystemExit(
            "this benchmark needs a cluster: `tests.support.run --bench kubernetes_pods`"
        )
    if not KWOK.exists():
        raise SystemExit(f"this benchmark needs kwok, which `{BUILD_COMMAND}` builds")
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as name:
        rows = measure(kubeconfig, Path(name))
    share = next(row[3] for row in rows if "nothing changes" in row[0])
    ended = [row[5] for row in rows if row[0].startswith("they go")]
    growth = ended[-1] / ended[0]
    said = [
        f"{share:.1%} of a core while {PODS} pods run (goal {GOAL_CORE:.0%}): "
        f"{'met' if share < GOAL_CORE else 'MISSED'}",
        f"memory after the last of {ROUNDS} rounds is {growth:.2f} of that after the first (goal "
        f"{GOAL_GROWTH}): {'met' if growth <= GOAL_GROWTH else 'MISSED'}",
    ]
    publish(
        "kubernetes_pods",
        f"What do {PODS} pods, each waited for, cost the process that watches them? Pods and nodes "
        "are kwok's, the API server is real.",
        COLUMNS,
        rows,
        "; ".join(said) + ".",
        command="python -m tests.support.run --bench kubernetes_pods",
    )


if __name__ == "__main__":
    main()
