"""`python -m bench [NAME …] [--quick]`: run the benchmarks, each in a process of its own.

Those of the configuration sync (`sync_…`) are shorter with `--quick`. They find their servers as
the tests do: `make bench` starts them. Those of ON_A_CLUSTER run only when they are named, on a
cluster that `python -m tests.support.run --bench kubernetes` starts.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys

NAMES = (
    "step_overhead",
    "docker_steps",
    "start_ahead",
    "sse",
    "logs",
    "hostile_suites",
    "catalog",
    "commands",
    "client",
    "resolve",
    "api",
    "tabs",
    "frames",
    "launch_load",
    "fleet",
    "inventory",
    "kept",
    "again",
    "mocks",
    "mock_state",
    "mock_start",
    "sync_accept",
    "sync_visible",
    "sync_large",
    "sync_watch",
)
ON_A_CLUSTER = frozenset({"kubernetes", "kubernetes_pods"})  # only when named: most have none


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="run the benchmarks")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"by default all: {', '.join(NAMES)}"
    )
    parser.add_argument("--quick", action="store_true", help="shorter, where a benchmark can be")
    options = parser.parse_args()
    known = (*NAMES, *sorted(ON_A_CLUSTER))
    if unknown := set(options.names) - set(known):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    quick = ["--quick"] if options.quick else []
    wanted = options.names or NAMES
    return max(_run([sys.executable, "-m", f"bench.{name}", *quick]) for name in wanted)


def _run(command: list[str]) -> int:
    """Its exit code; SIGTERM is passed on, so that it stops what it has started."""
    with subprocess.Popen(command) as process:
        signal.signal(signal.SIGTERM, lambda number, _frame: process.send_signal(number))
        return process.wait()


if __name__ == "__main__":
    sys.exit(main())
