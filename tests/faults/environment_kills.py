"""kill -9 around environments, at more moments than `make test` draws, each in a fresh pytest.

python -m tests.faults.environment_kills --moments 10 --seed 7      needs servers
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from bench.report import end_in_order, publish
from tests.faults.rounds import SEED

KILLS: Final = {
    "web, runner in the middle of a reap": "tests/faults/test_environment_reaps.py",
    "web, runner while a shell is open": "tests/faults/test_shells.py",
    "`up` while an environment is kept": "tests/integration/test_kept_environments.py",
    "`up` while a step runs again": "tests/integration/test_repeats.py",
}
COLUMNS: Final = ("kill -9 of", "moments a test", "tests", "right", "wrong", "minutes")


def main() -> int:
    end_in_order()
    parser = argparse.ArgumentParser(prog="python -m tests.faults.environment_kills")
    parser.add_argument("--moments", type=int, default=10, help="of each test")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--no-publish", dest="publish", action="store_false")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    rows = [play(what, file, options.moments, options.seed) for what, file in KILLS.items()]
    wrong = sum(int(str(row[4])) for row in rows)
    if options.publish:
        publish(
            "environment_kills",
            f"What becomes of environments, shells and repeats at kill -9? Seed {options.seed}.",
            COLUMNS,
            rows,
            "All right." if not wrong else f"{wrong} WRONG.",
            command="make faults",
        )
    return 1 if wrong else 0


def play(what: str, file: str, moments: int, seed: int) -> tuple[object, ...]:
    """Run the kills of one file; return its row."""
    known = {"PARTITA_FAULT_MOMENTS": str(moments), "PARTITA_FAULT_SEED": str(seed)}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="partita-kills-") as folder:
        report = Path(folder) / "junit.xml"
        words = ["-q", "-p", "no:randomly", "-k", "kill", f"--junitxml={report}", file]
        subprocess.run(
            [sys.executable, "-m", "pytest", *words], env={**os.environ, **known}, check=False
        )
        suite = next(ET.parse(report).getroot().iter("testsuite"))
    figures = {
        name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")
    }
    wrong = figures["failures"] + figures["errors"]
    right = figures["tests"] - wrong - figures["skipped"]
    minutes = round((time.monotonic() - begun) / 60, 1)
    return (what, moments, figures["tests"], right, wrong, minutes)


if __name__ == "__main__":
    sys.exit(main())
