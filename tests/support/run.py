"""`make test`: install what the tests need, start the servers, run every test, stop what started.

python -m tests.support.run            all tests; those of the store also on PostgreSQL
python -m tests.support.run --fast     what needs no server and is not slow; installs nothing
python -m tests.support.run --faults   the long fault runs
python -m tests.support.run --bench [NAME …]    the benchmarks, or some
python -m tests.support.run --cluster  what needs a Kubernetes cluster, on one that it starts
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import pytest

from bench.__main__ import ON_A_CLUSTER
from tests.support import cue_oracle, packages, servers, timing
from tests.support.kubernetes import programs
from tests.support.kubernetes.cluster import kubernetes

ROOT = Path(__file__).resolve().parents[2]
SINK_TESTS = "tests/contracts/sink"  # many, and none needs the engine
SERVICE_TESTS = [
    *("tests/unit", "tests/apps", "tests/client", "tests/sync", "tests/architecture"),
    SINK_TESTS,
]
# a browser drops its requests when an interface comes or goes, as they do with every container
BROWSER_ALONE = "browser and not docker and not timed"
REAL_WORKERS = "3"  # on two cores: they wait two thirds of their time
SERVICE_WORKERS = "2"  # they take what is left; a third one makes all slower
BEHIND = ["nice", "-n", "10"]  # who computes leaves the cores to who waits for a real server
# the contract suite marks its cases by the runtime
CLUSTER_TESTS = [
    "tests/contracts/runtime",
    "tests/integration/test_kubernetes_suites.py",
    "tests/integration/test_kept_environments.py",
    "tests/integration/test_real_shells.py",
    "tests/integration/test_repeats.py",
    "tests/integration/test_cluster_rights.py",
    "tests/integration/test_cluster_access.py",
    "tests/unit/deployment/test_chart.py",
    "tests/integration/test_cluster_installation.py",
]
CLUSTER_IMAGES = ("busybox:1.36", "redis:7-alpine", "python:3.12-alpine")
FAST = "not docker and not postgres and not redis and not browser and not slow and not timed"
PYTEST = [sys.executable, "-m", "pytest", "-q", "--timeout=900", "-p", "tests.support.timing"]
# what fails beside everything else runs once more, 10 s later, when a busy machine may be past it;
# a test that then passes is named, with its first failure (docs/decisions/0055); many failures are
# no accident and are not repeated
ONCE_MORE = ["--reruns=1", "--reruns-delay=10", "--max-suite-reruns=3", "--rerun-show-tracebacks"]
# the longest files first, in this order: by default xdist begins with those of many tests
REAL_FOLDERS = ["tests/faults", "tests/integration", "tests/contracts"]
IN_ORDER = "--no-loadscope-reorder"
REAL_TESTS = [f"--ignore={SINK_TESTS}", *REAL_FOLDERS]


@dataclass(frozen=True)
class Command:
    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    title: str = ""
    reads_terminal: bool = False  # a debugger, input of the tests


Lane = Sequence[Command]  # one after the other


def main() -> int:
    options = _options()
    _handle_signals()
    if options.fast:
        return _run_fast()
    if _needs_cluster(options) and (code := _missing_cluster()):
        return code
    wanted = packages.PROGRAMS | (packages.BENCH_PROGRAMS if options.bench else {})
    if absent := packages.install_missing(wanted):
        print(f"missing Debian packages, whose tests are skipped: {', '.join(absent)}", flush=True)
        if os.environ.get("CI"):
            print("CI is set: a missing part is a failure", file=sys.stderr)
            return 1
    if not (options.bench or options.faults or options.cluster or options.rest):
        cue_oracle.binaries()  # built once, before the tests wait for them
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="partita-test-")))
        environment = _start_servers(stack, folder, has_cluster=_needs_cluster(options))
        seed = environment.setdefault("PARTITA_FAULT_SEED", str(random.randrange(10**6)))
        print(f"PARTITA_FAULT_SEED={seed}", flush=True)
        code = _run_rounds(_rounds(options, environment), environment)
        return max(code, _say_times(folder))


def _needs_cluster(options: argparse.Namespace) -> bool:
    return options.cluster or (options.bench and not ON_A_CLUSTER.isdisjoint(options.rest))


def _start_servers(stack: ExitStack, folder: Path, *, has_cluster: bool) -> dict[str, str]:
    """Start what is there until `stack` ends; the environment by which tests find it."""
    environment = {**os.environ, "PARTITA_TEST_FOLDER": str(folder)}
    for server in (servers.redis, servers.postgres, servers.docker, servers.registry):
        environment |= stack.enter_context(server(folder))
    if host := environment.get("TEST_DOCKER_HOST"):
        servers.build_images(host, ROOT / "examples" / "images")
        if has_cluster and not os.environ.get("TEST_KUBECONFIG"):
            environment |= stack.enter_context(kubernetes(folder, host, CLUSTER_IMAGES))
    return environment


def _handle_signals() -> None:
    """Let signals interrupt, except those that are ignored on purpose, as SIGHUP is by nohup."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # a shell that started it in the background has Ctrl-C ignored, by all its children too
        if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    # likewise ignored there: PostgreSQL, which tests crash by it, would not hear it while it starts
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def _run_fast() -> int:
    """Run the tests that need no server; 1 when they took more CPU than their budget."""
    with tempfile.TemporaryDirectory(prefix="partita-test-") as folder:
        environment = {**os.environ, timing.FOLDER: folder}
        words = [*PYTEST, "-n", "logical", "-m", FAST, "tests/unit", "tests/apps"]
        code = run_lanes([[Command(words)]], environment)
        files, slower = timing.read(Path(folder))
        print("\n".join(timing.slowest(files)))
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    line, failures = timing.over_fast_budget(ended.ru_utime + ended.ru_stime, slower)
    print("\n".join([line, *failures]), flush=True)
    return max(code, 1 if failures else 0)


def _missing_cluster() -> int:
    """Say what a cluster of our own lacks and return 1; 0 when it can start, or one is named."""
    if os.environ.get("TEST_KUBECONFIG") or not (missing := programs.list_missing()):
        for absent in programs.list_optional():
            print(f"missing {absent} ({programs.BUILD_COMMAND})")
        return 0
    print(
        f"the tests' own Kubernetes is not complete: {', '.join(missing)}. Build it (once, about "
        f"10 minutes of CPU): {programs.BUILD_COMMAND}; or set TEST_KUBECONFIG to the kubeconfig "
        f"of a cluster that this host reaches and whose nodes have {', '.join(CLUSTER_IMAGES)}",
        file=sys.stderr,
    )
    return 1


def _say_times(folder: Path) -> int:
    """Print what the tests took; 1 when a kind of them is over its budget."""
    files, slower = timing.read(folder)
    if not files:
        return 0
    kinds, failures = timing.over_budget(files, slower)
    print("\n".join([*timing.slowest(files), *kinds, *failures]), flush=True)
    return 1 if failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="run the tests against real servers")
    parser.add_argument("--fast", action="store_true", help="only what needs no server")
    parser.add_argument("--faults", action="store_true", help="the long fault runs only")
    parser.add_argument("--bench", action="store_true", help="benchmarks only")
    parser.add_argument("--cluster", action="store_true", help="tests on a Kubernetes cluster only")
    parser.add_argument("rest", nargs="*", help="names of benchmarks, or words for pytest after --")
    options = parser.parse_args()
    if options.fast and options.rest:
        parser.error("--fast takes no further words")
    return options


def _rounds(options: argparse.Namespace, environment: dict[str, str]) -> list[list[Lane]]:
    """Return the rounds, which follow one another; the lanes of a round run side by side."""
    if options.bench:
        return [[[Command([sys.executable, "-m", "bench", *options.rest])]]]
    if options.faults:
        return [[[Command([sys.executable, "-m", "tests.faults"])]]]
    if options.cluster:
        words = [*PYTEST, "-m", "cluster", *CLUSTER_TESTS]
        return [[[Command(words, title="tests on a Kubernetes cluster")]]]
    if options.rest:
        return [[[Command([*PYTEST, *options.rest], reads_terminal=True)]]]
    return [_lanes(environment), [_timed_lane()]]


def _run_rounds(rounds: Sequence[Sequence[Lane]], environment: dict[str, str]) -> int:
    """Run one round after the other and return the highest exit code; Ctrl-C ends them all."""
    code = 0
    for lanes in rounds:
        code = max(code, run_lanes(lanes, environment))
        if code == pytest.ExitCode.INTERRUPTED or code > 128:
            break
    return code


def _timed_lane() -> Lane:
    """Return the tests that measure a delay: nothing else runs beside them."""
    words = [*PYTEST, *ONCE_MORE, "-n", "2", "--dist", "loadfile", "-m", "timed"]
    files = files_with("timed", "tests")
    return [Command([*words, *files], title="tests that measure a delay")]


def _lanes(environment: dict[str, str]) -> list[Lane]:
    """Return what runs side by side; only what the first lane prints is seen as it comes."""
    tests = [*PYTEST, *ONCE_MORE, "--dist", "loadfile"]  # a file's processes start once
    real = [*tests, "-n", REAL_WORKERS]
    waiting = [
        Command(
            [*real, "-m", BROWSER_ALONE, *files_with("browser", *REAL_FOLDERS)],
            title="pages in a browser",
        ),
        Command(
            [*real, IN_ORDER, "-m", f"not timed and not ({BROWSER_ALONE})", *REAL_TESTS],
            title="tests with real servers",
        ),
    ]
    service = [*BEHIND, *tests, "-n", SERVICE_WORKERS]
    computing = [
        Command([*service, "-m", "not timed", *SERVICE_TESTS], title="tests without servers")
    ]
    if dsn := environment.get("TEST_POSTGRES_DSN"):
        store = {"TEST_DB_DRIVER": "postgres", "POSTGRES_DSN": dsn}
        title = "the store's tests again, on PostgreSQL"
        marked = files_with("store", *SERVICE_TESTS)
        computing.append(Command([*service, "-m", "store and not timed", *marked], store, title))
    return [computing, waiting]


def files_with(marker: str, *folders: str) -> list[str]:
    """Test files that name `pytest.mark.<marker>`: to collect the others costs seconds a worker."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("test_*.py"))]
    mark = f"pytest.mark.{marker}"
    return [str(path.relative_to(ROOT)) for path in paths if mark in path.read_text()]


def run_lanes(lanes: Sequence[Lane], environment: dict[str, str]) -> int:
    """Run the lanes side by side and return the highest exit code.

    Ctrl-C interrupts what they run and starts nothing more; a second one kills it.
    """
    running = _Running(environment)
    with ThreadPoolExecutor(len(lanes)) as threads:
        codes = [threads.submit(running.run, *each) for each in enumerate(lanes)]
        for number in (signal.SIGINT, signal.SIGKILL):
            try:
                return _highest(codes)
            except KeyboardInterrupt:
                running.end(number)
        return _highest(codes)


def _highest(codes: Sequence[Future[int]]) -> int:
    return max(each.result() for each in codes)


class _Running:
    """What the lanes run now. Each command has a process group, which alone gets its signals.

    One that reads the terminal shares ours, which the terminal interrupts.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._lock = Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._is_ending = False

    def end(self, number: signal.Signals) -> None:
        with self._lock:
            self._is_ending = True
            for process in self._processes:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)

    def run(self, number: int, lane: Lane) -> int:
        code = 0
        for command in lane:
            code = max(code, self._run_command(number, command))
        return code

    def _run_command(self, number: int, command: Command) -> int:
        """Its exit code. Behind the first lane, what it prints is shown once it has ended."""
        begun = time.monotonic()
        if (process := self._start(number, command)) is None:
            return pytest.ExitCode.INTERRUPTED
        said, _ = process.communicate()
        with self._lock:
            self._processes.discard(process)
        if command.title:
            took = f"{time.monotonic() - begun:.0f} s"
            print(f"{said or ''}== {command.title}: {took}", flush=True)
        code = process.returncode
        return code if code >= 0 else 128 - code  # by a signal

    def _start(self, number: int, command: Command) -> subprocess.Popen[str] | None:
        """None when the lanes are ending."""
        words, output = command.words, subprocess.PIPE if number else None
        if "pytest" in words:  # its usual folder is closed to the user postgres by any other pytest
            folder = self._environment[timing.FOLDER]
            words = [*words, f"--basetemp={folder}/pytest{number}"]
        with self._lock:
            if self._is_ending:
                return None
            if command.title:
                print(f"== {command.title}", flush=True)
            is_in_front = command.reads_terminal and sys.stdin.isatty()
            process = subprocess.Popen(
                words, env=self._environment | command.environment, cwd=ROOT,
                process_group=None if is_in_front else 0,  # others may not read it
                stdout=output, stderr=output and subprocess.STDOUT, text=True, errors="replace",
            )  # fmt: skip
            self._processes.add(process)
            return process


if __name__ == "__main__":
    sys.exit(main())
