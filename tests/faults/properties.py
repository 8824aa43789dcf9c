"""The property tests with many examples, of which every other run tries a few.

python -m tests.faults.properties --seed 7
"""

from __future__ import annotations

import argparse
import subprocess
import sys


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.properties")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-publish", action="store_true", help="accepted; there is no table")
    options = parser.parse_args()
    tests = ["tests/unit", "tests/apps", "tests/sync", "-m", "hypothesis"]
    words = ["--hypothesis-profile=faults", f"--hypothesis-seed={options.seed}"]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", *words, *tests]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
