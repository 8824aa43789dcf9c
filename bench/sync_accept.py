"""`python -m bench sync_accept [--quick]`: signed GitHub pushes, beside Debian's `webhook`.

The gateway checks the HMAC, reads the JSON, reserves the delivery and hands it to the orchestrator
over a gRPC stream, which stores it on disk before it answers; `webhook` checks the HMAC and starts
`true`. The server under test has one core, and they take turns; the small orchestrator (a gRPC
server of Python too) and the sender share the other. The bare application (`bench.sync_floor`) does
the least of it over the same stream, as a floor in Python.
WEBHOOK_BINARY names the program when it is not installed.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import uvloop

from bench.report import end_in_order, is_quick, publish
from bench.sync_pushes import SECRET, Sender, Tally
from tests.support.servers import free_port

ROOT = Path(__file__).resolve().parents[1]
SIZES = (10_000, 200_000)
CONNECTIONS = 32
SERVER_CORE, OTHER_CORE = 0, min(1, (os.cpu_count() or 1) - 1)
CPU_GOALS, FLOOR_GOAL = dict(zip(SIZES, (4, 3), strict=True)), 1.6
RATE_GOAL, LATE_GOAL_MS, INBOX_GOAL = 2, 30, 1500
GATEWAY, FLOOR = ("manage.py", "run_gateway"), ("-m", "bench.sync_floor")
BUNDLE = """
bundle: {
	platforms: [{github: {secret: {env: "HOOK_SECRET"}}}]
	datasources: [{file: {root: "/nowhere"}}]
	rules: [{platform: "github", datasource: "file", repositories: ["**"], file_name: "a.yaml"}]
}
"""


@dataclass
class Measured:
    """Of a server at one size, over all its turns."""

    rates: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    tallies: list[Tally] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def cost(self) -> float:
        return statistics.median(self.cpu_ms)

    @property
    def failed(self) -> int:
        return sum(tally.failed for tally in self.tallies)

    def row(self, name: str, size: int) -> list[Any]:
        middle, late = (
            statistics.median(tally.quantile_ms(share) for tally in self.tallies)
            for share in (0.5, 0.99)
        )
        return [name, _kb(size), self.rate, self.cost, middle, late, self.failed]


@dataclass
class Server:
    name: str
    port: int
    path: str
    process: psutil.Process
    by_size: dict[int, Measured] = field(default_factory=dict)

    def cpu_s(self) -> float:
        """Of the process and the children that it has waited for."""
        return float(sum(self.process.cpu_times()[:4]))

    def turn(self, size: int, seconds: float) -> None:
        sender = Sender(self.port, self.path, size)
        uvloop.run(sender.flat_out(0.5, 4))
        cpu, clock = self.cpu_s(), time.perf_counter()
        tally = uvloop.run(sender.flat_out(seconds, CONNECTIONS))
        cpu, taken = self.cpu_s() - cpu, time.perf_counter() - clock
        measured = self.by_size.setdefault(size, Measured())
        measured.tallies.append(tally)
        measured.rates.append(len(tally.latencies) / taken)
        measured.cpu_ms.append(cpu * 1000 / len(tally.latencies))

    def at_half_load(self, size: int, seconds: float) -> Tally:
        rate = self.by_size[size].rate / 2
        return uvloop.run(Sender(self.port, self.path, size).paced(seconds, rate, CONNECTIONS))


@contextmanager
def started(
    name: str, command: list[str], port: int, core: int, *, path: str = "", **variables: str
) -> Iterator[Server]:
    process = subprocess.Popen(
        ["taskset", "-c", str(core), *command],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **variables},
        stdout=subprocess.DEVNULL,
    )
    try:
        _wait_for(port)
        yield Server(name, port, path, psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait(timeout=40)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on {port}")


@contextmanager
def gateway(
    folder: Path, name: str, program: tuple[str, ...] = GATEWAY, **more: str
) -> Iterator[Server]:
    (folder / "config.cue").write_text(BUNDLE)
    orchestrator, port = free_port(), free_port()
    store = folder / f"tasks-{port}.sqlite3"
    command = [sys.executable, "-m", "bench.sync_orchestrator", str(orchestrator), str(store)]
    variables = {
        "CONFIG_PATH": str(folder / "config.cue"),
        "HOOK_SECRET": SECRET,
        "GATEWAY_ADDR": f"127.0.0.1:{port}",
        "ADMIN_ADDR": f"127.0.0.1:{free_port()}",
        "ORCHESTRATOR_ADDR": f"127.0.0.1:{orchestrator}",
        "GATEWAY_RATE_GLOBAL": "off",
        "GATEWAY_RATE_PER_IP": "off",
        "GATEWAY_RATE_PER_KEY": "off",
        "LOG_LEVEL": "ERROR",
    }
    serve = [sys.executable, *program]
    with (
        started("orchestrator", command, orchestrator, OTHER_CORE),
        started(
            name, serve, port, SERVER_CORE, path="/webhooks/file", **variables, **more
        ) as server,
    ):
        yield server


@contextmanager
def webhook(folder: Path, binary: str) -> Iterator[Server]:
    header = {"source": "header", "name": "X-Hub-Signature-256"}
    rule = {"match": {"type": "payload-hmac-sha256", "secret": SECRET, "parameter": header}}
    hook = {"id": "file", "execute-command": "/bin/true", "trigger-rule": rule}
    (folder / "hooks.json").write_text(json.dumps([hook]))
    port = free_port()
    command = [binary, "-hooks", str(folder / "hooks.json"), "-ip", "127.0.0.1", "-port", str(port)]
    name = "Debian webhook"
    with started(name, command, port, SERVER_CORE, path="/hooks/file") as server:
        yield server


def main() -> int:
    end_in_order()
    os.sched_setaffinity(0, {OTHER_CORE})
    quick = is_quick()
    turns, seconds = (2, 2.0) if quick else (5, 4.0)
    binary = os.environ.get("WEBHOOK_BINARY") or shutil.which("webhook")
    rows: list[list[Any]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="partita-bench-")))
        ours = stack.enter_context(gateway(folder, "Partita gateway"))
        floor = stack.enter_context(gateway(folder, "bare application", FLOOR))
        peers = [stack.enter_context(webhook(folder, binary))] if binary else []
        for size in SIZES:
            for _ in range(turns):
                for server in (ours, floor, *peers):
                    server.turn(size, seconds)
            rows += [each.by_size[size].row(each.name, size) for each in (ours, floor, *peers)]
        halves = {size: ours.at_half_load(size, 2 * seconds) for size in SIZES}
        rows += [_half_row(ours, size, tally, 2 * seconds) for size, tally in halves.items()]
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as name:
        inbox = f"{name}/inbox.sqlite3"
        with gateway(Path(name), "Partita gateway, inbox on", GATEWAY_INBOX=inbox) as server:
            for _ in range(turns):
                server.turn(SIZES[0], seconds)
            rows.append(server.by_size[SIZES[0]].row(server.name, SIZES[0]))
    publish(
        "sync_accept",
        "How many signed pushes a second does one core take, each stored on disk behind a gRPC "
        f"stream before its answer? Medians of {turns} turns of {seconds:g} s each, "
        f"{CONNECTIONS} connections.",
        ("server", "push", "accepted/s", "CPU ms each", "p50 ms", "p99 ms", "failed"),
        rows,
        _verdict(ours, floor, peers, halves, server),
    )
    return int(any(row[-1] for row in rows))


def _kb(size: int) -> str:
    return f"{size // 1000} KB"


def _half_row(server: Server, size: int, tally: Tally, seconds: float) -> list[Any]:
    rate = len(tally.latencies) / seconds
    times = [tally.quantile_ms(share) for share in (0.5, 0.99)]
    return [f"{server.name}, half that load", _kb(size), rate, "", *times, tally.failed]


def _verdict(
    ours: Server, floor: Server, peers: list[Server], halves: dict[int, Tally], inbox: Server
) -> str:
    said = []
    for peer in peers:
        for size, mine in ours.by_size.items():
            theirs = peer.by_size[size]
            less, more = theirs.cost / mine.cost, mine.rate / theirs.rate
            said += [
                f"{_kb(size)}: {less:.1f} times less CPU than `webhook` "
                f"(goal {CPU_GOALS[size]}: {_met(less >= CPU_GOALS[size])}), "
                f"{more:.1f} times its rate (goal {RATE_GOAL}: {_met(more >= RATE_GOAL)})"
            ]
        for size, least in floor.by_size.items():
            less = peer.by_size[size].cost / least.cost
            said.append(f"{_kb(size)}, bare application: {less:.1f} times less CPU than `webhook`")
    for size, mine in ours.by_size.items():
        more = mine.cost / floor.by_size[size].cost
        said.append(
            f"{_kb(size)}: {more:.1f} times the CPU of the bare application "
            f"(goal {FLOOR_GOAL}: {_met(more <= FLOOR_GOAL)})"
        )
    for size, tally in halves.items():
        late = tally.quantile_ms(0.99)
        said.append(
            f"{_kb(size)} at half load: p99 {late:.1f} ms "
            f"(goal {LATE_GOAL_MS}: {_met(late < LATE_GOAL_MS)})"
        )
    rate = inbox.by_size[SIZES[0]].rate
    said.append(f"inbox on: {rate:,.0f}/s (goal {INBOX_GOAL:,}: {_met(rate >= INBOX_GOAL)})")
    return "; ".join(said) + ("" if peers else "; `webhook` is not installed") + "."


def _met(met: bool) -> str:  # noqa: FBT001 - the only thing it is about
    return "met" if met else "MISSED"


if __name__ == "__main__":
    sys.exit(main())
