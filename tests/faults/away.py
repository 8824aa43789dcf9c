"""`up`, or a runner on PostgreSQL, stands still in the middle of runs of `shop`, and comes back.

python -m tests.faults.away                                       everything; needs servers
python -m tests.faults.away --who up --away 83 --times 5 --killed no --no-publish

Its containers go on meanwhile, or some are killed: of `shop`, whose services have no retries, and
of `shop-retried`, whose services have some. The waits of several installations overlap.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final

import httpx

from bench.report import end_in_order, publish
from tests.faults.checks import (
    Site,
    check_events,
    check_lines,
    check_run,
    check_streams,
    whole_attempts,
)
from tests.faults.engine_watch import EngineWatch
from tests.faults.rounds import SEED, check_containers
from tests.support.cluster import EXAMPLES, TERMINAL, Cluster
from tests.support.parts import address
from tests.support.processes import Process, until
from tests.support.up import Up

WHO: Final = ("up", "runner")
RETRIED: Final = "shop-retried"
AWAY_S: Final = (5.0, 83.0, 300.0)
OVER_WITHIN_S: Final = 400.0  # of the return; all runs of a batch at once, on a busy machine
PATIENCE_S: Final = 120.0  # for an answer, on a busy machine
COLUMNS: Final = (
    "stopped",
    "suite",
    "for s",
    "containers",
    "runs",
    "Healthy",
    "Failed",
    "wrong",
    "longest s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`killed`: while its supervisor stands still, containers of each run are killed."""

    who: str
    away_s: float
    killed: bool
    runs: int
    seed: str
    suite: str = "shop"

    def __str__(self) -> str:
        alive = "containers killed" if self.killed else "containers alive"
        what = f"{self.who}, {self.suite}, {self.away_s:g} s, {alive}"
        return f"{what}, {self.runs} runs, seed {self.seed}"


@dataclass(slots=True)
class Outcome:
    """`seconds`: of each run, from the return of its supervisor on."""

    case: Case
    ended: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


class UpSite:
    """The same questions to an `up` as to a cluster."""

    def __init__(self, up: Up) -> None:
        self.up = up

    def launch(self, suite: str, **body: Any) -> str:
        with self.up.client() as client:
            client.timeout = httpx.Timeout(PATIENCE_S)
            answer = client.post("/executions", json={"suiteId": suite, **body})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def get(self, path: str, **parameters: str) -> httpx.Response:
        answer = self.up.get(path, within_s=PATIENCE_S, **parameters)
        assert answer.status_code == 200, answer.text
        return answer

    def detail(self, run_id: str) -> dict[str, Any]:
        return dict(self.get(f"/executions/{run_id}").json())

    def lines(self, run_id: str) -> list[dict[str, Any]]:
        answer = self.get(f"/executions/{run_id}/logs/download", format="ndjson")
        return [dict(httpx.Response(200, text=line).json()) for line in answer.text.splitlines()]

    def wait_over(self, run_id: str, *, within_s: float = 120) -> dict[str, Any]:
        def over() -> dict[str, Any] | None:
            detail = self.detail(run_id)
            return detail if detail["status"] in TERMINAL else None

        return until(over, within_s=within_s, what=f"{run_id} is over", each_s=0.5)

    def account_of(self, run_id: str) -> str:
        events = self.detail(run_id)["events"]
        told = [f"{event['time']} {event['id']}: {event['text']}" for event in events]
        process = self.up.process
        log = (self.up.data / "up.log").read_text(errors="replace")
        return "\n".join(
            [*told, self.up.said()[-4000:], log[-8000:], process.state(), process.stacks()]
        )


@contextmanager
def installation(who: str, folder: Path, **environment: str) -> Iterator[tuple[Site, Process]]:
    """One that serves `shop` and `shop-retried`, and the process that will stand still."""
    folder.mkdir(parents=True, exist_ok=True)
    retried = _retried_shop(folder / "made" / RETRIED)
    if who == "runner":
        dsn = address("TEST_POSTGRES_DSN")
        parts = ("web", "celery", "runner")
        with Cluster(
            folder / "cluster", postgres=dsn, parts=parts, environment=environment, suites=[retried]
        ) as cluster:
            yield cluster, cluster.processes["runner"]
        return
    shutil.copytree(EXAMPLES / "shop", retried.parent / "shop")
    settings = {"UP_DEMO": "0", "SUITES_DIR": str(retried.parent), **environment}
    up = Up(folder / "up", DOCKER_HOST=address("TEST_DOCKER_HOST"), **settings)
    try:
        up.start()
        yield UpSite(up), up.process
    finally:
        up.end()


def _retried_shop(suite: Path) -> Path:
    """`shop` whose services start anew when they exit."""
    shutil.copytree(EXAMPLES / "shop", suite)
    source = suite / "suite.star"
    written = source.read_text().replace("service.run(", "service.run(\n    retries = 3,")
    source.write_text(written)
    return suite


def stand_still(
    case: Case,
    site: Site,
    process: Process,
    watch: EngineWatch,
    *,
    active: Callable[[], Any] = threading.Lock,
) -> Outcome:
    """Launch, stop in the middle, go on after a while, judge. `active`: held outside the wait."""
    chance, outcome, working = random.Random(case.seed), Outcome(case), active()
    with working:
        runs = [site.launch(case.suite, profile="cash.yaml") for _ in range(case.runs)]
        until(
            lambda: all(_began(site, each) for each in runs),
            within_s=240,
            what="stores run",
            each_s=0.3,
        )
        time.sleep(chance.uniform(0, 10))  # the moment
        process.freeze()
    try:
        killed = {run_id: _kill_some(watch, run_id, chance) for run_id in runs if case.killed}
        time.sleep(case.away_s)  # the absence itself
    finally:
        process.go_on()
    with working:
        returned = time.monotonic()
        for run_id in runs:
            try:
                status = _judge(site, watch, run_id, killed.get(run_id, ()))
            except (AssertionError, httpx.HTTPError) as error:
                outcome.wrong.append(f"{case}: {run_id}: {error}")
            else:
                outcome.ended.append(status)
                outcome.seconds.append(time.monotonic() - returned)
    return outcome


def _began(site: Site, run_id: str) -> bool:
    return any(event["id"] == "store-running" for event in site.detail(run_id)["events"])


def _kill_some(watch: EngineWatch, run_id: str, chance: random.Random) -> tuple[str, ...]:
    """kill -9 of one or more running containers of the run; the ids of their steps."""
    running = sorted(watch.running(run_id).items())
    chosen = chance.sample(running, chance.randint(1, len(running))) if running else []
    for _, container in chosen:
        command = ["docker", "-H", watch.docker_host, "kill", container]
        subprocess.run(command, check=False, capture_output=True, timeout=180)
    return tuple(step for step, _ in chosen)


def _judge(site: Site, watch: EngineWatch, run_id: str, killed: Sequence[str]) -> str:
    site.wait_over(run_id, within_s=OVER_WITHIN_S)
    if killed:
        return _check_after_kills(site, watch, run_id, killed)
    detail = check_run(site, watch, run_id)
    check_containers(watch.starts(run_id), [step["id"] for step in detail["steps"]])
    again = [event["id"] for event in detail["events"] if "-requeued" in event["id"]]
    assert not again, again
    return str(detail["status"])


def _check_after_kills(site: Site, watch: EngineWatch, run_id: str, killed: Sequence[str]) -> str:
    """Healthy because it ran again, or Failed and the reason names what was killed."""
    try:
        detail = site.detail(run_id)
        reason = f"{detail.get('reason')}: {detail.get('reasonDetail')}"
        named = any(f"{step}" in reason for step in killed)
        assert detail["status"] == "Healthy" or named, f"killed {killed}, but {reason}"
        check_events(detail)
        check_lines(site.lines(run_id), whole=whole_attempts(detail))
        check_streams(site, run_id)
        watch.check_attempts(run_id)
        watch.check_nothing_left(run_id)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{site.account_of(run_id)}") from error
    return str(detail["status"])


def cases(options: argparse.Namespace) -> list[Case]:
    """Batches of at most `--batch` runs; the longest absence first, so that the waits overlap."""
    found = []
    alive, killings = [(False, "shop")], [(True, suite) for suite in options.suite]
    kinds = {"yes": killings, "no": alive, "both": [*alive, *killings]}[options.killed]
    for away_s, (killed, suite), who in product(
        sorted(options.away, reverse=True), kinds, options.who
    ):
        left = options.times
        while left > 0:
            runs = min(left, options.batch)
            seed = f"{options.seed} {who} {away_s:g} {killed} {left}"
            found.append(
                Case(who=who, away_s=away_s, killed=killed, runs=runs, seed=seed, suite=suite)
            )
            left -= runs
    return found


def run_all(options: argparse.Namespace) -> list[Outcome]:
    """All cases, several installations at a time, one of them at work."""
    working = threading.Lock()
    with tempfile.TemporaryDirectory(prefix="partita-away-") as folder:
        root = Path(folder)
        with (
            EngineWatch(address("TEST_DOCKER_HOST"), root) as watch,
            ThreadPoolExecutor(options.side_by_side) as threads,
        ):

            def one(numbered: tuple[int, Case]) -> Outcome:
                number, case = numbered
                try:
                    with installation(case.who, root / str(number)) as (site, process):
                        outcome = stand_still(case, site, process, watch, active=lambda: working)
                except (AssertionError, httpx.HTTPError, subprocess.SubprocessError) as error:
                    outcome = Outcome(case, wrong=[f"{case}: {error}"])
                print(f"{case}: {outcome.ended}, {len(outcome.wrong)} wrong", flush=True)
                for sentence in outcome.wrong:
                    print(f"WRONG: {sentence}", flush=True)
                return outcome

            return list(threads.map(one, enumerate(cases(options))))


def rows(outcomes: Sequence[Outcome]) -> list[list[object]]:
    """One for each kind of case."""
    table: dict[tuple[str, float, bool, str], list[Outcome]] = {}
    for outcome in outcomes:
        case = outcome.case
        key = case.who, case.away_s, case.killed, case.suite
        table.setdefault(key, []).append(outcome)
    return [_row(key, group) for key, group in sorted(table.items())]


def _row(key: tuple[str, float, bool, str], group: Sequence[Outcome]) -> list[object]:
    who, away_s, killed, suite = key
    ended = [status for outcome in group for status in outcome.ended]
    wrong = sum(len(outcome.wrong) for outcome in group)
    longest = max((second for outcome in group for second in outcome.seconds), default=0.0)
    runs = len(ended) + wrong
    counts = [runs, ended.count("Healthy"), ended.count("Failed"), wrong, round(longest, 1)]
    return [who, suite, f"{away_s:g}", "killed" if killed else "alive", *counts]


def main() -> int:
    end_in_order()
    options = _options()
    print(f"seed {options.seed}", flush=True)
    outcomes = run_all(options)
    wrong = [sentence for outcome in outcomes for sentence in outcome.wrong]
    for row in rows(outcomes):
        print(" | ".join(map(str, row)), flush=True)
    if options.publish:
        publish(
            "away",
            "`up`, or a runner on PostgreSQL, stopped with SIGSTOP in the middle of runs of `shop` "
            "(leases of 30 s). Containers alive, right: the same containers go on, every numbered "
            "line once, Healthy. Containers killed meanwhile, right: what ran against them runs "
            "again, or the run fails and names one of them (the services of `shop` have no "
            "retries, those of `shop-retried` three). Seconds: from the return to the end of a "
            "run's checks, those of its batch included.",
            COLUMNS,
            rows(outcomes),
            f"Seed {options.seed}: {len(wrong)} wrong.",
            command=f".venv/bin/python -m tests.faults.away {' '.join(sys.argv[1:])}".rstrip(),
        )
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.away",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--who", action="append", choices=WHO, help="repeatable; else both")
    parser.add_argument("--away", action="append", type=float, help="seconds, repeatable")
    parser.add_argument("--killed", choices=("yes", "no", "both"), default="both")
    parser.add_argument(
        "--suite", action="append", choices=("shop", RETRIED), help="whose containers are killed"
    )
    parser.add_argument("--times", type=int, default=20, help="runs of each case")
    parser.add_argument("--batch", type=int, default=5, help="runs of one installation")
    parser.add_argument("--side-by-side", type=int, default=4, help="installations at a time")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--no-publish", dest="publish", action="store_false")
    options = parser.parse_args()
    options.who, options.away = options.who or list(WHO), options.away or list(AWAY_S)
    options.suite = options.suite or ["shop", RETRIED]
    os.environ.setdefault("TEST_DOCKER_HOST", "unix:///var/run/docker.sock")
    return options


if __name__ == "__main__":
    sys.exit(main())
