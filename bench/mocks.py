"""`python -m bench mocks [--quick]`: mocks of one API, beside the mock servers of others."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import psutil

from bench import mock_api, mock_plane, stand
from bench.mock_api import Request
from bench.mock_load import CONNECTIONS
from bench.mock_servers import GrpcServer, Server
from bench.peers import mock_servers as peers
from bench.peers.environment import NoPeer
from bench.report import end_in_order, is_quick, publish

ROUNDS: Final = 1 if is_quick() else 5
SECONDS: Final = 2 if is_quick() else 4
JVM_WARM_UP_S: Final = 4 if is_quick() else 10
STARTS: Final = 1 if is_quick() else 3
OPERATIONS: Final = 20
COLUMNS: Final = (
    "server", "answers", "CPU µs each", "requests/s", "p50 ms", "p99 ms", "cold start s",
    "MB after load", "failed",
)  # fmt: skip
UVICORN: Final = (
    sys.executable, "-m", "uvicorn", "--host", "127.0.0.1", "--no-access-log", "--log-level",
    "warning", "--no-proxy-headers", "--http", "kernel.http_protocol:ProblemProtocol",
)  # fmt: skip
SUITE: Final = """load("@partita/runtime", "task")
task.run("step", image = "none", command = ["true"])
"""
OURS, LEAN = "Partita", "WireMock without journal and log"
PLAIN: Final = "static examples"
STATEFUL: Final = "matching, templates, state"
CHECKED: Final = "POST of 1 KiB, checked by its contract"
UNCHECKED: Final = "the same, not checked"
RAW: Final = "raw ASGI, no features"
LARGE: Final = "static, 500 operations"
GRPC: Final = "gRPC unary"
SUITES: Final = (100, 1000)


def our_servers(folder: Path) -> Iterator[Server]:
    yield _ours(PLAIN, folder / "plain")
    yield _ours(STATEFUL, folder / "stateful", form="stateful")
    yield _ours(CHECKED, folder / "checked", form="checked")
    yield _ours(UNCHECKED, folder / "unchecked", form="unchecked")
    yield _ours(LARGE, folder / "large", operations=500)
    for suites in SUITES:
        yield _ours(f"static, {suites:,} suites", folder / f"suites{suites}", suites=suites)
    suite = folder / "serve" / "sales"
    mock_api.write_files(suite, mock_api.plain_suite(OPERATIONS))
    serve = [sys.executable, "manage.py", "mock", "serve", str(suite), "--port"]
    requests = mock_api.plain_requests(OPERATIONS, "/mocks/rest/sales/sales")
    yield Server("Partita, mock serve", PLAIN, requests, lambda port: [*serve, str(port)], folder)
    yield _control_plane(folder / "control_plane", requests)
    requests = mock_plane.requests("plain", OPERATIONS, 1)
    yield Server(RAW, PLAIN, requests, _app("mock_floor"), folder / "floor")


def _ours(
    answers: str, folder: Path, *, form: str = "plain", operations: int = OPERATIONS,
    suites: int = 1,
) -> Server:  # fmt: skip
    requests = mock_plane.requests(form, operations, suites)
    settings = mock_plane.settings(form, operations, suites)
    return Server(OURS, answers, requests, _app("mock_plane"), folder, settings)


def _control_plane(folder: Path, requests: Sequence[Request]) -> Server:
    """Return the whole web process, which has the same plane in front, with production settings."""
    suite = folder / "suites" / "sales"
    mock_api.write_files(suite, mock_api.plain_suite(OPERATIONS))
    (suite / "suite.star").write_text(SUITE)
    command = [*UVICORN, "platform_site.asgi:application", "--port"]
    environment = stand.environment(folder)
    return Server(
        "Partita, the whole web process", PLAIN, requests, lambda port: [*command, str(port)],
        folder, environment,
    )  # fmt: skip


def _app(module: str) -> Callable[[int], list[str]]:
    return lambda port: [*UVICORN, "--port", str(port), f"bench.{module}:application"]


def peer_servers(folder: Path) -> Iterator[Server]:
    plain = mock_api.plain_requests(OPERATIONS)
    stateful = mock_api.stateful_requests(OPERATIONS)
    mock_api.write_plain_mappings(folder / "plain", OPERATIONS)
    mock_api.write_stateful_mappings(folder / "stateful", OPERATIONS)
    for name, is_lean in (("WireMock", False), (LEAN, True)):
        for answers, requests, form in ((PLAIN, plain, "plain"), (STATEFUL, stateful, "stateful")):
            yield Server(
                name, answers, requests, _wiremock(folder / form, is_lean=is_lean),
                folder / f"{name}-{form}", warm_up_s=JVM_WARM_UP_S,
            )  # fmt: skip
    yield Server("Prism", PLAIN, plain, _of(peers.prism, folder / "prism"), folder / "prism")
    checked = partial(peers.prism, is_checked=True)
    yield Server(
        "Prism", CHECKED, mock_api.checked_requests(OPERATIONS),
        _of(checked, folder / "prism-checked"), folder / "prism-checked",
    )  # fmt: skip
    yield Server(
        "Mockoon", PLAIN, plain, _of(peers.mockoon, folder / "mockoon"), folder / "mockoon"
    )


def _wiremock(folder: Path, *, is_lean: bool) -> Callable[[int], list[str]]:
    return lambda port: peers.wiremock(folder, port, is_lean=is_lean)


def _of(command: Callable[[Path, int], list[str]], folder: Path) -> Callable[[int], list[str]]:
    return lambda port: command(folder, port)


def grpc_servers(folder: Path) -> Iterator[Server]:
    bare = [sys.executable, "-m", "bench.peers.mock_grpc"]
    yield GrpcServer(
        "grpc.aio, a bare servicer", GRPC, (),
        lambda port: [*bare, str(port), str(folder / "generated")], folder / "bare",
    )  # fmt: skip
    ours = [sys.executable, "-m", "bench.mock_plane"]
    yield GrpcServer(OURS, GRPC, (), lambda port: [*ours, str(port)], folder / "ours")


@contextmanager
def started(servers: Sequence[Server]) -> Iterator[list[Server]]:
    """Start those that can be had here, check what they answer, and warm them up."""
    running: list[Server] = []
    try:
        for server in servers:
            print(f"starting {server.name}: {server.answers}", flush=True)
            try:
                server.start()
            except NoPeer as error:
                print(f"no {server.name} here: {error}", flush=True)
                continue
            running.append(server)
            for _ in range(STARTS - 1):
                server.stop()
                server.start()
            server.check()
            server.warm_up()
        yield running
    finally:
        for server in servers:
            server.stop()


@dataclass(frozen=True)
class Row:
    """The medians of a server's turns."""

    server: str
    answers: str
    cpu_us: float
    rate: float
    p50_ms: float
    p99_ms: float
    cold_start_s: float
    memory_mb: float
    failed: int = 0

    @classmethod
    def of(cls, server: Server) -> Row:
        def median(name: str) -> float:
            return statistics.median(float(getattr(turn, name)) for turn in server.turns)

        return cls(
            server.name, server.answers, median("cpu_us"), median("rate"), median("p50_ms"),
            median("p99_ms"), statistics.median(server.cold_start_s), server.memory_mb,
            sum(turn.failed for turn in server.turns),
        )  # fmt: skip

    def cells(self) -> list[object]:
        return [
            self.server, self.answers, round(self.cpu_us, 1), f"{self.rate:,.0f}", self.p50_ms,
            self.p99_ms, self.cold_start_s, f"{self.memory_mb:.0f}", self.failed,
        ]  # fmt: skip


Rows = Mapping[tuple[str, str], Row]


def verdict(rows: Rows) -> str:
    """Return what became of each goal for which there are rows."""
    return "; ".join(_verdicts(rows)) + "."


def _verdicts(rows: Rows) -> Iterator[str]:
    plain, stateful = rows[OURS, PLAIN], rows[OURS, STATEFUL]
    raw = plain.cpu_us / rows[RAW, PLAIN].cpu_us
    yield f"static: {raw:.2f} of raw ASGI's CPU (goal 0.44): {_met(raw <= 12 / 27)}"
    checks_us = rows[OURS, CHECKED].cpu_us - rows[OURS, UNCHECKED].cpu_us
    yield f"checking a body of 1 KiB: {checks_us:.0f} µs (goal 40): {_met(checks_us <= 40)}"
    if ("Prism", CHECKED) in rows:
        ratio = rows["Prism", CHECKED].cpu_us / rows[OURS, CHECKED].cpu_us
        yield _share("checked POST: Prism's CPU", ratio, 3)
    for peer in ("WireMock", LEAN):
        if (peer, PLAIN) in rows:
            yield _share(f"static: {peer}'s CPU", rows[peer, PLAIN].cpu_us / plain.cpu_us, 3.5)
        if (peer, STATEFUL) in rows:
            ratio = rows[peer, STATEFUL].cpu_us / stateful.cpu_us
            yield _share(f"stateful: {peer}'s CPU", ratio, 2.5)
            worst = max(plain.p99_ms / rows[peer, PLAIN].p99_ms,
                        stateful.p99_ms / rows[peer, STATEFUL].p99_ms)  # fmt: skip
            yield f"p99 {worst:.2f} of {peer}'s (goal: below 1): {_met(worst < 1)}"
    if ("Prism", PLAIN) in rows:
        ratio = rows["Prism", PLAIN].cpu_us / stateful.cpu_us
        yield _share("stateful: our requests per CPU second, of Prism's", ratio, 4)
    for answers in (LARGE, *(f"static, {suites:,} suites" for suites in SUITES)):
        ratio = rows[OURS, answers].cpu_us / plain.cpu_us
        is_met = _met(ratio <= 1.15)
        yield f"{answers}: {ratio:.2f} times the CPU of 20 operations (goal 1.15): {is_met}"
    serve = rows["Partita, mock serve", PLAIN]
    cold_s = serve.cold_start_s
    yield f"mock serve: cold start {cold_s:.2f} s (goal 0.5): {_met(cold_s < 0.5)}"
    memory = max(plain.memory_mb, stateful.memory_mb, serve.memory_mb)
    yield f"{memory:.0f} MB after the load (goal 100): {_met(memory < 100)}"
    if (OURS, GRPC) in rows:
        ratio = rows["grpc.aio, a bare servicer", GRPC].rate / rows[OURS, GRPC].rate
        is_met = _met(ratio <= 1 / 0.9)
        yield f"gRPC: a bare servicer has {ratio:.2f} times our rate (goal 1.11): {is_met}"


def _share(what: str, ratio: float, goal: float) -> str:
    return f"{what}: {ratio:.1f} times (goal {goal:g}): {_met(ratio >= goal)}"


def _met(is_met: bool) -> str:  # noqa: FBT001 - a word for it
    return "met" if is_met else "MISSED"


class Bystanders:
    """What else took CPU on the two cores while servers were loaded."""

    def __init__(self) -> None:
        self._busy, self._time = _busy_s(), time.monotonic()

    def share(self, servers: Sequence[Server]) -> float:
        """Return the cores that nobody of the benchmark used, so far as it is known."""
        own = sum(
            turn.cpu_us * turn.rate * SECONDS / 1e6 for each in servers for turn in each.turns
        )
        load = SECONDS * sum(len(each.turns) for each in servers)  # a core each turn, at most
        took = time.monotonic() - self._time
        return max(0.0, (_busy_s() - self._busy - own - load) / took)


def _busy_s() -> float:
    times = psutil.cpu_times()
    return times.user + times.system + times.nice + times.softirq + times.irq


def measured(folder: Path) -> tuple[list[Row], float]:
    """Return the rows, and how many cores others used meanwhile."""
    servers = [
        *our_servers(folder / "ours"), *peer_servers(folder / "peers"),
        *grpc_servers(folder / "grpc"),
    ]  # fmt: skip
    with started(servers) as running:
        bystanders = Bystanders()
        for number in range(ROUNDS):
            print(f"round {number + 1} of {ROUNDS}", flush=True)
            for server in running:
                server.turn(SECONDS)
        return [Row.of(server) for server in running], bystanders.share(running)


def main() -> None:
    end_in_order()
    if absent := [name for name in ("wrk", "h2load") if shutil.which(name) is None]:
        raise SystemExit(f"this benchmark needs {' and '.join(absent)}: run `make bench`")
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as folder:
        rows, others = measured(Path(folder))
    publish(
        "mocks",
        f"One API of {OPERATIONS} operations (10 GET, 10 POST) with examples of 1 KiB, one process "
        f"on one core, load by wrk with {CONNECTIONS} connections (gRPC: h2load, as many streams) "
        f"on the other. Servers take turns of {SECONDS} s; medians of {ROUNDS}. Partita: request "
        "id, metrics, journal, CORS and checks of the contract in place. WireMock as it starts by "
        "itself, and without its journal and log; its state is a scenario. Prism and Mockoon read "
        "the OpenAPI document; Prism checks calls, too. "
        f"Microcks cannot be had here. Meanwhile others used {others:.1f} of the two cores or more "
        f"(load average {os.getloadavg()[2]:.0f}).",
        COLUMNS,
        [row.cells() for row in rows],
        verdict({(row.server, row.answers): row for row in rows}),
    )


if __name__ == "__main__":
    main()
