"""Random histories of a sync, on a model: as many as asked for, by hand.

python -m tests.faults.sync_histories --histories 10000 --seed 7
python -m tests.faults.sync_histories --histories 250 --seed 19    the 250 of a run that failed
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import django
from django.core.management import call_command

from bench.report import end_in_order, publish

SEED: Final = int(os.environ.get("PARTITA_FAULT_SEED", random.randrange(10**6)))
A_RUN: Final = 250  # of hypothesis; each has a seed of its own: that of the first, and on
COLUMNS: Final = (
    *("histories", "steps", "points", "broker faults", "tasks", "right", "wrong", "minutes"),
)


@dataclass
class Result:
    """`wrong`: what each run that failed has found."""

    seed: int
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def cells(self) -> list[object]:
        from tests.faults import sync_machine

        seen = sync_machine.FIGURES
        right = seen.histories - len(self.wrong)
        numbers: Sequence[object] = (
            *(seen.histories, seen.steps, seen.points, seen.broker_faults, seen.tasks),
        )
        return [*numbers, right, len(self.wrong), round(self.seconds / 60, 1)]


def main() -> int:
    end_in_order()
    options = _options()
    prepare()
    print(f"seed {options.seed}", flush=True)
    result = run_histories(
        options.histories, options.seed, stored=options.store, shrink=options.shrink
    )
    print(dict(zip(COLUMNS, result.cells(), strict=True)))
    if options.publish:
        _publish(result)
    return 1 if result.wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.sync_histories")
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--store", action="store_true", help="on SQLite; else rows in memory")
    parser.add_argument("--no-publish", dest="publish", action="store_false")
    parser.add_argument("--shrink", action="store_true", help="look for the shortest history")
    return parser.parse_args()


def prepare() -> None:
    """A store in memory, settings as in tests, and no log."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "platform_site.settings.test"
    os.environ |= {"DB_DRIVER": "sqlite", "SQLITE_PATH": ":memory:"}
    django.setup()
    logging.disable(logging.CRITICAL)
    call_command("migrate", verbosity=0)


def run_histories(
    histories: int, number: int, *, stored: bool = False, shrink: bool = False
) -> Result:
    from tests.faults import sync_machine

    machine = sync_machine.StoredHistories if stored else sync_machine.Histories
    result = Result(number)
    begun = time.monotonic()
    for first in range(0, histories, A_RUN):
        run_seed = number + first // A_RUN
        try:
            sync_machine.run(min(A_RUN, histories - first), run_seed, machine, shrink=shrink)
        except Exception:  # noqa: BLE001 - the other runs go on
            result.wrong.append(f"seed {run_seed}: {traceback.format_exc(limit=-3)}")
            print(f"WRONG: seed {run_seed}\n{traceback.format_exc()}", flush=True)
        result.seconds = time.monotonic() - begun
        print(f"{result.seconds:6.0f} s  {sync_machine.FIGURES}", flush=True)
    return result


def _publish(result: Result) -> None:
    wrong = len(result.wrong)
    publish(
        "sync-histories",
        "Random histories of a sync, on a model of Git and of sinks, with the product's own rows "
        "and services: pushes, force pushes, rewinds, deletes, redeliveries x 10, any order, Git, "
        "sink and store that fail, files empty and poisoned, up to four workers inside one "
        "another, killed or frozen at any of the points between two operations, drift and foreign "
        "keys by hand, changes of the bundle, a broker stopped, frozen, emptied, with the "
        "product's own publisher and wake sweep. Right: it settles, live equals Git, nothing of "
        "others is gone, commits and generations only move on, every delivery has ended.",
        COLUMNS,
        [result.cells()],
        f"Seed {result.seed}: {'all ended right' if not wrong else f'{wrong} ended WRONG'}.",
        command=f".venv/bin/python -m tests.faults.sync_histories --seed {result.seed}",
    )


if __name__ == "__main__":
    sys.exit(main())
