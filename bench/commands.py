"""`python -m bench commands [--quick]`: what the commands about suites cost, beside 200 others."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.report import end_in_order, is_quick, publish
from bench.stand import ROOT

SUITES: Final = 200
ROUNDS: Final = 3 if is_quick() else 9
GOAL_S: Final = 0.6  # of CPU, for a command about one suite
COLUMNS: Final = ("command", "s", "CPU s", "times the floor")
FLOOR: Final = "import django.core.management, django.db.models, django.http"
PYTHON: Final = sys.executable


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians of the rounds, in seconds."""

    wall_s: float
    cpu_s: float


def cost(words: Sequence[str], environment: dict[str, str]) -> Cost:
    """Run a command once unmeasured, so that caches are warm, then in rounds."""
    walls, cpus = [], []
    for number in range(ROUNDS + 1):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(words, env=environment, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        after, took = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
        if number:
            walls.append(took)
            cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return Cost(statistics.median(walls), statistics.median(cpus))


def prepare(folder: Path) -> dict[str, str]:
    """Make a store and a workspace of 200 copies of `shop`; return the commands' environment."""
    suites = folder / "suites"
    suites.mkdir()
    for number in range(SUITES):
        shutil.copytree(ROOT / "examples" / "oci-suites" / "shop", suites / f"shop-{number}")
    data = folder / "data"
    data.mkdir()
    kept = {name: text for name, text in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    environment = {
        **kept, "DB_DRIVER": "sqlite", "DATA_DIR": str(data), "SUITES_DIR": str(suites),
    }  # fmt: skip
    migrate = [PYTHON, "manage.py", "migrate", "-v", "0"]
    subprocess.run(migrate, env=environment, cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
    return environment


def main() -> None:
    end_in_order()
    commands = {
        "suite validate shop-7": ["suite", "validate", "shop-7"],
        "suite show shop-7": ["suite", "show", "shop-7"],
        "suite lint shop-7": ["suite", "lint", "shop-7"],
        "suite list": ["suite", "list"],
        "help": ["help"],
    }
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as name:
        environment = prepare(Path(name))
        floor = cost([PYTHON, "-c", FLOOR], environment)
        found = {
            title: cost([PYTHON, "manage.py", *words], environment)
            for title, words in commands.items()
        }
    costs = {"floor: Django's own modules, imported": floor, **found}
    rows = [
        [title, each.wall_s, each.cpu_s, each.cpu_s / floor.cpu_s] for title, each in costs.items()
    ]
    one = max(found[f"suite {verb} shop-7"].cpu_s for verb in ("validate", "show", "lint"))
    publish(
        "commands",
        f"What a command costs beside {SUITES} suites, all evaluated once before; medians of"
        f" {ROUNDS}. The floor is a Python that imports Django and does nothing.",
        COLUMNS,
        rows,
        f"a command about one suite takes at most {one:.2f} s of CPU (goal {GOAL_S:g}):"
        f" {'met' if one <= GOAL_S else 'MISSED'}",
    )


if __name__ == "__main__":
    main()
