"""Every committed CUE file and a thousand random ones, compared with both editions of `cue`.

python -m tests.faults.cue_agreement --seed 7
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

RANDOM_FILES = 1000  # of each kind: invented ones, and changed programs
TESTS = "tests/unit/cue/test_agreement.py"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.cue_agreement")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-publish", action="store_true", help="accepted; there is no table")
    options = parser.parse_args()
    asked = {"CUE_ALL": "1", "CUE_PROGRAMS": str(RANDOM_FILES), "CUE_SEED": str(options.seed)}
    command = [sys.executable, "-m", "pytest", "-q", "-s", TESTS]
    return subprocess.run(command, env=os.environ | asked, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
