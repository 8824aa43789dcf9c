"""`make test`: install what the tests need, start the servers, run every test, stop what started.

python -m tests.support.run            all tests; those of the store also on PostgreSQL
python -m tests.support.run --faults   the long fault runs
python -m tests.support.run --bench    the benchmarks
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from tests.support import cue_oracle, packages, servers, timing

ROOT = Path(__file__).resolve().parents[2]
SINK_TESTS = "tests/contracts/sink"  # many, and none needs the engine
SERVICE_TESTS = ["tests/unit", "tests/apps", "tests/sync", "tests/architecture", SINK_TESTS]
# a browser drops its requests when an interface comes or goes, as they do with every container
BROWSER_ALONE = "browser and not docker"
REAL_WORKERS = "3"  # on two cores: they wait two thirds of their time
BEHIND = ["nice", "-n", "10"]  # who computes leaves the cores to who waits for a real server
REAL_TESTS = ["tests/contracts", f"--ignore={SINK_TESTS}", "tests/integration", "tests/faults"]


@dataclass(frozen=True)
class Command:
    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    title: str = ""


Lane = Sequence[Command]  # one after the other


def main() -> int:
    options = _options()
    # a shell that started it in the background has Ctrl-C ignored, by all its children too
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if absent := packages.install_missing():
        print(f"missing Debian packages, whose tests are skipped: {' '.join(absent)}", flush=True)
        if os.environ.get("CI"):
            print("CI is set: a missing part is a failure", file=sys.stderr)
            return 1
    if not options.bench and not options.faults and not options.rest:
        cue_oracle.binaries()  # built once, before the tests wait for them
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="partita-test-")))
        environment = {**os.environ, "PARTITA_TEST_FOLDER": str(folder)}
        for server in (servers.redis, servers.postgres, servers.docker, servers.registry):
            environment |= stack.enter_context(server(folder))
        if host := environment.get("TEST_DOCKER_HOST"):
            servers.build_images(host, ROOT / "examples" / "images")
        seed = environment.setdefault("PARTITA_FAULT_SEED", str(random.randrange(10**6)))
        print(f"PARTITA_FAULT_SEED={seed}", flush=True)
        code = _run(_lanes(options, environment), environment)
        return max(code, _say_times(folder))


def _say_times(folder: Path) -> int:
    """Print what the tests took; 1 when a kind of them is over its budget."""
    if not (files := timing.read(folder)):
        return 0
    kinds, failures = timing.over_budget(files)
    print("\n".join([*timing.slowest(files), *kinds, *failures]), flush=True)
    return 1 if failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="run the tests against real servers")
    parser.add_argument("--faults", action="store_true", help="the long fault runs only")
    parser.add_argument("--bench", action="store_true", help="the benchmarks only")
    parser.add_argument("rest", nargs="*", help="further words for pytest, after --")
    return parser.parse_args()


def _lanes(options: argparse.Namespace, environment: dict[str, str]) -> list[Lane]:
    """What runs side by side; only what the first lane prints is seen as it comes."""
    tests = [sys.executable, "-m", "pytest", "-q", "--timeout=300", "-p", "tests.support.timing"]
    if options.bench:
        return [[Command([sys.executable, "-m", "bench"])]]
    if options.faults:
        return [[Command([sys.executable, "-m", "tests.faults"])]]
    if options.rest:
        return [[Command([*tests, *options.rest])]]
    tests += ["--dist", "loadfile"]  # a file's processes start once
    real = [*tests, "-n", REAL_WORKERS]
    waiting = [
        Command([*real, "-m", BROWSER_ALONE, *REAL_TESTS], title="pages in a browser"),
        Command(
            [*real, "-m", f"not ({BROWSER_ALONE})", *REAL_TESTS],
            title="tests with real servers",
        ),
    ]
    service = [*BEHIND, *tests, "-n", "2"]
    computing = [Command([*service, *SERVICE_TESTS], title="tests without servers")]
    if dsn := environment.get("TEST_POSTGRES_DSN"):
        store = {"TEST_DB_DRIVER": "postgres", "POSTGRES_DSN": dsn}
        title = "the store's tests again, on PostgreSQL"
        computing.append(Command([*service, "-m", "store", *SERVICE_TESTS], store, title))
    return [computing, waiting]


def _run(lanes: Sequence[Lane], environment: dict[str, str]) -> int:
    """Run the lanes side by side; the highest exit code."""
    with ThreadPoolExecutor(len(lanes)) as threads:
        return max(threads.map(partial(_run_lane, environment), range(len(lanes)), lanes))


def _run_lane(environment: dict[str, str], number: int, lane: Lane) -> int:
    code = 0
    for command in lane:
        code = max(code, _run_command(environment, number, command))
        if code == pytest.ExitCode.INTERRUPTED:  # Ctrl-C reaches all of them
            break
    return code


def _run_command(environment: dict[str, str], number: int, command: Command) -> int:
    """Its exit code. Behind the first lane, what it prints is shown once it has ended."""
    words, output = command.words, subprocess.PIPE if number else None
    if "pytest" in words:  # its usual folder is closed to the user postgres by any other pytest
        words = [*words, f"--basetemp={environment['PARTITA_TEST_FOLDER']}/pytest{number}"]
    if command.title:
        print(f"== {command.title}", flush=True)
    begun = time.monotonic()
    ended = subprocess.run(
        words, env=environment | command.environment, cwd=ROOT, check=False,
        stdout=output, stderr=output and subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    if command.title:
        said = ended.stdout or ""
        print(f"{said}== {command.title}: {time.monotonic() - begun:.0f} s", flush=True)
    return ended.returncode if ended.returncode >= 0 else 128 - ended.returncode  # by a signal


if __name__ == "__main__":
    sys.exit(main())
