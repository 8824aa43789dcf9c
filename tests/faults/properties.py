"""The property tests and the requests to every route, with many examples; `make test` tries a few.

python -m tests.faults.properties --seed 7
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

ROUTES = "tests/integration/test_openapi.py"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.properties")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-publish", action="store_true", help="accepted; there is no table")
    options = parser.parse_args()
    words = ["--hypothesis-profile=faults", f"--hypothesis-seed={options.seed}"]
    command = [sys.executable, "-m", "pytest", "-q", *words]
    tests = ["-n", "2", "-m", "hypothesis", "tests/unit", "tests/apps", "tests/sync"]
    requests = os.environ | {"PARTITA_API_EXAMPLES": "100"}
    codes = [
        subprocess.run([*command, *tests], check=False).returncode,
        subprocess.run([*command, ROUTES], env=requests, check=False).returncode,
    ]
    failed = next((code for code in codes if code), 0)
    return failed if failed >= 0 else 128 - failed  # by a signal


if __name__ == "__main__":
    sys.exit(main())
