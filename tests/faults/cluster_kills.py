"""kill -9 of a cluster's processes and of ours, during `shop` on a backend of type kubernetes.

python -m tests.faults.cluster_kills --moments 20 --seed 7    needs servers and TEST_KUBECONFIG
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.report import end_in_order, publish
from tests.faults.checks import check_events, check_lines, check_streams, lost_attempts
from tests.faults.rounds import SEED, Moment, moments
from tests.support import parts
from tests.support.cluster import Cluster
from tests.support.kubernetes.components import COMPONENTS, kill_and_restart
from tests.support.processes import until

OURS: Final = ("runner", "worker", "web", "celery")
COLUMNS: Final = ("killed", "times", "runs", "right", "wrong", "median s", "longest s")
A_ROUND: Final = 2  # moments in one run
TOGETHER: Final = 2  # runs at once
ATTEMPTS: Final = {"warm-cache": 2}  # others: one
RETURNED_UNSTARTED: Final = (  # such an attempt is none: nothing of it has run
    "the supervisor restarted before the container was created",
    "the supervisor released it before the container started",
)
BACKEND: Final = "cluster"
REMOTE: Final = "edge"  # of the worker, which runs its steps in the same cluster
LEFT_S: Final = 120


def main() -> int:
    end_in_order()
    options = _options()
    print(f"seed {options.seed}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="partita-kills-") as folder,
        Cluster(
            Path(folder) / "cluster",
            parts=("web", "celery", "runner"),
            postgres=parts.address("TEST_POSTGRES_DSN") or None,
            settings=json.dumps(_settings()),
        ) as site,
    ):
        site.add("worker", LOCAL_RUNTIME="kubernetes", KUBECONFIG=parts.need_cluster())
        until(lambda: _is_ready(site, REMOTE), within_s=LEFT_S, what=f"{REMOTE} has its worker")
        rows = []
        for victim in options.victim or (*COMPONENTS, *OURS):
            rows.append(_play(site, victim, moments(victim, options.moments, seed=options.seed)))
            print(*rows[-1], sep=" | ", flush=True)
    wrong = sum(int(str(row[4])) for row in rows)
    if options.publish:
        _publish(rows, wrong, options.seed)
    return 1 if wrong else 0


def _is_ready(site: Cluster, backend: str) -> bool:
    agents = site.get("/platform-settings").json()["agents"]
    return any(each["agentId"] == backend and each["status"] == "Ready" for each in agents)


def _settings() -> dict[str, Any]:
    cluster = {"agentId": BACKEND, "name": "Cluster", "type": "kubernetes", "default": True}
    remote = {"agentId": REMOTE, "name": "Edge", "type": "remote-agent", "routingTags": []}
    path = {"kubeconfigPath": parts.need_cluster()}
    return {"mode": "hybrid", "agents": [cluster | path, remote]}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.cluster_kills")
    parser.add_argument("--moments", type=int, default=20, help="of each victim")
    parser.add_argument("--victim", action="append", choices=(*COMPONENTS, *OURS))
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--no-publish", dest="publish", action="store_false")
    return parser.parse_args()


def _play(site: Cluster, victim: str, drawn: Sequence[Moment]) -> tuple[object, ...]:
    """Play the rounds of one victim; return its row."""
    seconds: list[float] = []
    wrong = 0
    for first in range(0, len(drawn), A_ROUND):
        begun = time.monotonic()
        ended = _play_round(site, victim, drawn[first : first + A_ROUND])
        seconds.append(time.monotonic() - begun)
        wrong += len(ended)
        for sentence in ended:
            print(f"WRONG: {sentence}", flush=True)
    runs = len(seconds) * TOGETHER
    seconds.sort()
    middle = round(seconds[len(seconds) // 2], 1)
    return (victim, len(drawn), runs, runs - wrong, wrong, middle, round(seconds[-1], 1))


def _play_round(site: Cluster, victim: str, at: Sequence[Moment]) -> list[str]:
    """kill -9 at each moment of runs that are under way; return what is wrong with them."""
    order = sorted(at, key=lambda moment: moment.after_s)
    print(f"kill -9 {victim}: {'; '.join(map(str, order))}", flush=True)
    begun = time.monotonic()
    backend = REMOTE if victim == "worker" else BACKEND
    runs = [
        site.launch("shop", profile="cash.yaml", backend=backend) for _number in range(TOGETHER)
    ]
    for moment in order:
        # a run takes about twice as long as on Docker
        time.sleep(max(0.0, begun + 2 * moment.after_s - time.monotonic()))
        if victim in OURS:
            site.processes[victim].crash(away_s=moment.away_s)
        else:
            kill_and_restart(victim, away_s=moment.away_s)
    wrong = []
    for run_id in runs:
        try:
            check_run(site, run_id)
        except AssertionError as error:
            wrong.append(f"{victim}: {error}\n{site.account_of(run_id)}")
    return wrong


def check_run(site: Cluster, run_id: str) -> None:
    """The run ended Healthy, with each numbered line once, and left nothing in the cluster."""
    detail = site.wait_over(run_id, within_s=300)
    assert detail["status"] == "Healthy", detail.get("reasonDetail")
    detail = site.detail(run_id)
    check_events(detail)
    check_lines(site.lines(run_id), lost=lost_attempts(detail))
    check_streams(site, run_id)
    attempts = {
        step["id"]: step["attempt"] for step in detail["steps"] if step["status"] == "healthy"
    }
    returned = Counter(
        event["source"] for event in detail["events"] if event["text"] in RETURNED_UNSTARTED
    )
    assert attempts == {step: ATTEMPTS.get(step, 1) + returned[step] for step in attempts}, attempts
    until(
        lambda: not list_objects(run_id),
        within_s=LEFT_S,
        what=lambda: f"{run_id} leaves nothing: {list_objects(run_id)}",
        each_s=0.5,
    )


def list_objects(run_id: str) -> list[str]:
    """Return the objects of a run in the cluster; one that does not answer has some, too."""
    command = ["kubectl", "--kubeconfig", parts.need_cluster(), "get", "pods,services,secrets"]
    words = [*command, "-l", f"partita.run_id={run_id}", "-o", "name"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.split() if done.returncode == 0 else [done.stderr]


def _publish(rows: list[tuple[Any, ...]], wrong: int, seed: int) -> None:
    publish(
        "cluster_kills",
        "kill -9 at random moments of runs of `shop` on a real Kubernetes 1.34 of one node, two "
        "moments in two runs at once, on PostgreSQL and Redis. Right: the run ends Healthy, events "
        "in the order of the reference, no step has an attempt more than undisturbed, but for "
        "those that were returned before anything ran, every numbered line once, both streams "
        "whole, no pod, Service or Secret left.",
        COLUMNS,
        rows,
        f"Seed {seed}: {'all runs ended right' if not wrong else f'{wrong} runs ended WRONG'}.",
        command=f"python -m tests.faults.cluster_kills --seed {seed}",
    )


if __name__ == "__main__":
    sys.exit(main())
