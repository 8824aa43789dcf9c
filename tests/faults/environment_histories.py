"""Random histories of environments, on a model of an engine: as many as asked for, by hand.

python -m tests.faults.environment_histories --histories 10000 --seed 7
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import traceback
from collections import Counter
from typing import Final

from bench.report import end_in_order, publish
from tests.faults.sync_histories import prepare

SEED: Final = int(os.environ.get("PARTITA_FAULT_SEED", random.randrange(10**6)))
A_ROUND: Final = 100
COLUMNS: Final = (
    *("histories", "runs", "looks", "crashes", "kept", "extended", "marks", "sweeps", "killed"),
    *("removed", "of zombies", "right", "wrong", "minutes"),
)


def main() -> int:
    end_in_order()
    parser = argparse.ArgumentParser(prog="python -m tests.faults.environment_histories")
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--no-publish", dest="publish", action="store_false")
    options = parser.parse_args()
    prepare()
    print(f"seed {options.seed}", flush=True)
    done, wrong, seconds = run_histories(options.histories, options.seed)
    cells = [
        options.histories,
        *(done[name] for name in ("create", "look", "crash", "keep", "extend", "mark")),
        *(done[name] for name in ("sweep", "killed", "removed", "removed_zombies")),
        *(options.histories - len(wrong), len(wrong), round(seconds / 60, 1)),
    ]
    print(dict(zip(COLUMNS, cells, strict=True)))
    if options.publish:
        _publish(options.seed, cells, wrong)
    return 1 if wrong else 0


def run_histories(histories: int, seed: int) -> tuple[Counter[str], list[str], float]:
    """Play them; return what happened in them, which failed and the seconds."""
    from tests.faults import environment_machine

    done, wrong, begun = Counter[str](), list[str](), time.monotonic()
    for number in range(histories):
        try:
            done += environment_machine.run(1, f"{seed} {number}")
        except Exception:  # noqa: BLE001 - the other histories go on
            wrong.append(f"{seed} {number}")
            print(f"WRONG: {seed} {number}\n{traceback.format_exc(limit=-4)}", flush=True)
        if number % A_ROUND == A_ROUND - 1:
            print(f"{time.monotonic() - begun:6.0f} s  {number + 1}", flush=True)
    return done, wrong, time.monotonic() - begun


def _publish(seed: int, cells: list[object], wrong: list[str]) -> None:
    publish(
        "environment-histories",
        "Random histories of environments, on a model of an engine, with the product's own rows "
        "and services: runs come, grow, end, are kept and extended, two runners crash and come "
        "back, look, mark and sweep inside one another, are killed in the middle; foreign "
        "resources appear, and take the place of ours. Right: nothing foreign was removed, no "
        "kept world and no living run by a sweep of zombies, and in the end nothing of ours is "
        "left.",
        COLUMNS,
        [cells],
        f"Seed {seed}: {'all ended right' if not wrong else f'{len(wrong)} ended WRONG'}.",
        command=f".venv/bin/python -m tests.faults.environment_histories --seed {seed}",
    )


if __name__ == "__main__":
    sys.exit(main())
