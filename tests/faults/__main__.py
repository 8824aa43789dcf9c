"""`make faults`: 20 random moments a victim with real leases, absences, histories of the sync.

python -m tests.faults                     needs servers (make faults starts them)
python -m tests.faults --moments 4 --victim runner --seed 7        this victim and nothing else

The tables go to bench/RESULTS.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.report import publish
from tests.faults.engine_watch import EngineWatch
from tests.faults.rounds import SEED, Row, moments, play_rounds
from tests.support.cluster import Cluster
from tests.support.parts import address

VICTIMS = ("web", "runner", "celery", "worker")
PARTS = ("web", "celery", "runner", "worker")
OTHERS = (
    "tests.faults.away",
    "tests.faults.restarts",
    "tests.faults.sync_restarts",
    "tests.faults.sync_burst",
    "tests.faults.sync_histories",
    "tests.faults.sync_real",
    "tests.faults.environment_histories",
    "tests.faults.environment_kills",
    "tests.faults.fleet_losses",
    "tests.faults.cue_agreement",
    "tests.faults.properties",
    "tests.faults.prism_agreement",
    "tests.faults.public_contracts",
)


def main() -> int:
    options = _options()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="partita-faults-") as folder:
        rows = _rows(Path(folder), options)
    wrong = [sentence for row in rows for sentence in row.wrong]
    if options.publish:
        _publish(rows, options.seed)
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    failed = 0 if options.victim else _others(options)
    return 1 if wrong or failed else 0


def _others(options: argparse.Namespace) -> int:
    """Each in a process of its own, which tells and publishes; how many failed."""
    words = ["--seed", str(options.seed), *([] if options.publish else ["--no-publish"])]
    commands = [[sys.executable, "-m", module, *words] for module in OTHERS]
    return sum(subprocess.run(command, check=False).returncode != 0 for command in commands)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--moments", type=int, default=20, help="of each victim")
    parser.add_argument("--victim", action="append", choices=VICTIMS, help="repeatable; else all")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--no-publish", dest="publish", action="store_false")
    return parser.parse_args()


def _rows(folder: Path, options: argparse.Namespace) -> list[Row]:
    engine, postgres = address("TEST_DOCKER_HOST"), address("TEST_POSTGRES_DSN")
    victims = options.victim or VICTIMS
    with (
        EngineWatch(engine, folder) as watch,
        Cluster(folder / "cluster", parts=PARTS, postgres=postgres) as cluster,
    ):
        return [
            play_rounds(cluster, watch, victim, moments(victim, options.moments, seed=options.seed))
            for victim in victims
        ]


def _publish(rows: Sequence[Row], seed: int) -> None:
    wrong = sum(len(row.wrong) for row in rows)
    publish(
        "faults",
        "kill -9 at random moments of runs of `shop`, two in each run, leases of 30 s, on "
        "PostgreSQL and Redis; where the web process is killed, a local run and one on a remote "
        "worker at once. Right: the run ends Healthy, events in the order of the reference, "
        "every container started once (the step that fails once: twice), every numbered line "
        "once, both streams whole, no container, network or volume left.",
        ("killed", "times", "runs", "right", "wrong", "median s", "longest s"),
        [row.cells() for row in rows],
        f"Seed {seed}: {'all runs ended right' if not wrong else f'{wrong} runs ended WRONG'}.",
        command=f".venv/bin/python -m tests.faults --seed {seed}",
    )


if __name__ == "__main__":
    sys.exit(main())
