"""`python -m bench.sync_accept`: signed GitHub pushes a second, beside Debian's `webhook`.

The gateway checks the HMAC, reads the JSON, reserves the delivery and calls the orchestrator by
gRPC before it answers; `webhook` checks the HMAC and starts `true`. The server under test has one
core; the orchestrator and the sender share the other. WEBHOOK_BINARY names the program when it is
not installed.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from bench.report import publish
from tests.support.servers import free_port
from tests.support.webhooks import github_examples

ROOT = Path(__file__).resolve().parents[1]
SECRET = "bench-secret"
CONNECTIONS = 32
SECONDS = float(os.environ.get("BENCH_SECONDS", "8"))
SIZES = (10_000, 200_000)
SERVER_CORE, OTHER_CORE = 0, min(1, (os.cpu_count() or 1) - 1)
BUNDLE = """
bundle: {
	platforms: [{github: {secret: {env: "HOOK_SECRET"}}}]
	datasources: [{file: {root: "/nowhere"}}]
	rules: [{platform: "github", datasource: "file", repositories: ["**"], file_name: "a.yaml"}]
}
"""


@dataclass
class Tally:
    latencies: list[float] = field(default_factory=list)
    failed: int = 0


@dataclass(frozen=True)
class Server:
    port: int
    pid: int

    def cpu_s(self) -> float:
        """Of the process and the children that it has waited for."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def push_of(size: int) -> dict[str, Any]:
    """A real push of GitHub with as many of its commits as make up the size."""
    payload = next(
        example for name, example in github_examples() if name == "push" and example["commits"]
    )
    commit = payload["commits"][0]
    count = max(1, (size - len(json.dumps(payload))) // len(json.dumps(commit)) + 1)
    return payload | {"commits": [commit] * count}


class Sender:
    """Requests that differ in their last digits only, so that signing them costs little."""

    def __init__(self, port: int, path: str, size: int) -> None:
        self.port = port
        self._path = path
        self._size = size
        self._head = json.dumps(push_of(size)).encode()[:-1] + b',"n":"'
        self._signed = hmac.new(SECRET.encode(), self._head, hashlib.sha256)
        self._number = 0

    def request(self) -> bytes:
        self._number += 1
        tail = b'%012d"}' % self._number
        proof = self._signed.copy()
        proof.update(tail)
        head = (
            f"POST {self._path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            f"X-GitHub-Event: push\r\nX-GitHub-Delivery: {self._size}-{self._number}\r\n"
            f"X-Hub-Signature-256: sha256={proof.hexdigest()}\r\n"
            f"Content-Length: {len(self._head) + len(tail)}\r\n\r\n"
        )
        return head.encode() + self._head + tail

    async def run(self, tally: Tally, until: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        while time.perf_counter() < until:
            sent = self.request()
            started = time.perf_counter()
            writer.write(sent)
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length or 0))
            tally.latencies.append(time.perf_counter() - started)
            tally.failed += head[9:12] not in {b"200", b"202"}
        writer.close()


async def measure(server: Server, path: str, size: int) -> list[Any]:
    """requests/s, ms of CPU each, p50 ms, p99 ms, failed."""
    sender = Sender(server.port, path, size)
    await asyncio.gather(*(sender.run(Tally(), time.perf_counter() + 1) for _ in range(4)))
    tally = Tally()
    used = server.cpu_s()
    end = time.perf_counter() + SECONDS
    await asyncio.gather(*(sender.run(tally, end) for _ in range(CONNECTIONS)))
    used = server.cpu_s() - used
    ordered = sorted(tally.latencies)
    middle, late = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    cost = used * 1000 / len(ordered)
    return [len(ordered) / SECONDS, cost, middle * 1000, late * 1000, tally.failed]


@contextmanager
def started(command: list[str], port: int, core: int, **variables: str) -> Iterator[Server]:
    process = subprocess.Popen(
        ["taskset", "-c", str(core), *command],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **variables},
        stdout=subprocess.DEVNULL,
    )
    try:
        _wait_for(port)
        yield Server(port, process.pid)
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on {port}")


@contextmanager
def gateway(folder: Path) -> Iterator[Server]:
    (folder / "config.cue").write_text(BUNDLE)
    orchestrator, port = free_port(), free_port()
    command = [sys.executable, "-m", "bench.sync_orchestrator", str(orchestrator)]
    with (
        started(command, orchestrator, OTHER_CORE),
        started(
            [sys.executable, "manage.py", "run_gateway"],
            port,
            SERVER_CORE,
            CONFIG_PATH=str(folder / "config.cue"),
            HOOK_SECRET=SECRET,
            GATEWAY_ADDR=f"127.0.0.1:{port}",
            ADMIN_ADDR=f"127.0.0.1:{free_port()}",
            ORCHESTRATOR_ADDR=f"127.0.0.1:{orchestrator}",
            GATEWAY_RATE_GLOBAL="off",
            GATEWAY_RATE_PER_IP="off",
            GATEWAY_RATE_PER_KEY="off",
            LOG_LEVEL="ERROR",
        ) as server,
    ):
        yield server


@contextmanager
def webhook(binary: str, folder: Path) -> Iterator[Server]:
    header = {"source": "header", "name": "X-Hub-Signature-256"}
    rule = {"match": {"type": "payload-hmac-sha256", "secret": SECRET, "parameter": header}}
    hook = {"id": "file", "execute-command": "/bin/true", "trigger-rule": rule}
    (folder / "hooks.json").write_text(json.dumps([hook]))
    port = free_port()
    command = [binary, "-hooks", str(folder / "hooks.json"), "-ip", "127.0.0.1", "-port", str(port)]
    with started(command, port, SERVER_CORE) as server:
        yield server


def main() -> int:
    os.sched_setaffinity(0, {OTHER_CORE})
    rows: list[list[Any]] = []
    binary = os.environ.get("WEBHOOK_BINARY") or shutil.which("webhook")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with gateway(folder) as server:
            rows += [_row("Partita gateway", server, "/webhooks/file", size) for size in SIZES]
        if binary:
            with webhook(binary, folder) as server:
                rows += [_row("Debian webhook", server, "/hooks/file", size) for size in SIZES]
    publish(
        "sync_accept",
        "How many signed pushes a second does one core take, each stored by the orchestrator "
        "before its answer?",
        ("server", "push", "requests/s", "CPU ms each", "p50 ms", "p99 ms", "failed"),
        rows,
        _verdict(rows, peer=bool(binary)),
    )
    return int(any(row[-1] for row in rows))


def _row(name: str, server: Server, path: str, size: int) -> list[Any]:
    return [name, f"{size // 1000} KB", *uvloop.run(measure(server, path, size))]


def _verdict(rows: list[list[Any]], *, peer: bool) -> str:
    if not peer:
        return "`webhook` is not installed: the gateway alone."
    ratios = [rows[index][2] / rows[index + len(SIZES)][2] for index in range(len(SIZES))]
    words = ", ".join(
        f"{ratio:.1f} times at {size // 1000} KB" for ratio, size in zip(ratios, SIZES, strict=True)
    )
    return f"The gateway takes as many requests as `webhook`: {words}."


if __name__ == "__main__":
    sys.exit(main())
