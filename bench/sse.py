"""`python -m bench.sse`: all log lines of a run to 1, 100 and 1,000 followers, one server process.

The server is the control plane itself under uvicorn on one core; writer and followers share the
other. The store is PostgreSQL with nudges over Redis where the tests' servers are there, else
SQLite and polling.
"""

from __future__ import annotations

import asyncio
import os
import resource
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvloop

from bench.report import publish
from bench.sse_client import Follower, Tally, connect, percentile
from tests.support.servers import free_port

ROOT = Path(__file__).resolve().parents[1]
LINES_PER_S = 1000
MOST_FOLLOWERS = 1000
WARM_UP_S = 2.0
SECONDS = 10.0
REGISTER = """
import django
django.setup()
from apps.agents import api as agents
agents.register(agents.Registration(
    agent_id="bench", incarnation="1", kind="runner", backends=("local-docker",)))
"""  # an idle runner: without one nothing can be launched
ADMIN = {"email": "bench@example.org", "password": "Bench-0-password"}
SERVER_CORE, OTHER_CORE = 0, min(1, (os.cpu_count() or 1) - 1)


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    port: int
    environment: dict[str, str]

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_kb(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4


@dataclass
class Figures:
    followers: int
    offered: int
    delivered: float
    p50_ms: float
    p99_ms: float
    cpu: float
    kb_each: float
    whole: bool

    def row(self, how: str) -> list[object]:
        return [
            how,
            self.followers,
            f"{self.offered:,}",
            f"{self.delivered:,.0f}",
            f"{self.p50_ms:.0f}",
            f"{self.p99_ms:.0f}",
            f"{self.cpu:.0f} %",
            f"{self.kb_each:.0f}",
            "yes" if self.whole else "no",
        ]


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "platform_site.settings.production",
        "DATA_DIR": str(folder),
        "JWT_SECRET": secrets.token_urlsafe(48),
        "STREAM_MAX_PER_USER": "100000",
        "ADMIN_EMAIL": ADMIN["email"],
        "ADMIN_PASSWORD": ADMIN["password"],
        "REDIS_ADDR": os.environ.get("TEST_REDIS_ADDR", ""),
        "LOG_LEVEL": "WARNING",
        **_store(folder),
    }


def _store(folder: Path) -> dict[str, str]:
    if not (dsn := os.environ.get("TEST_POSTGRES_DSN")):
        return {"DB_DRIVER": "sqlite", "SQLITE_PATH": str(folder / "bench.sqlite3")}
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS bench_sse WITH (FORCE)")
        connection.execute("CREATE DATABASE bench_sse")
    return {"DB_DRIVER": "postgres", "POSTGRES_DSN": dsn.rpartition("/")[0] + "/bench_sse"}


@contextmanager
def serving(application: str, env: dict[str, str]) -> Iterator[Server]:
    port = free_port()
    command = [
        "taskset", "-c", str(SERVER_CORE), sys.executable, "-m", "uvicorn", application,
        "--host", "127.0.0.1", "--port", str(port), "--no-access-log", "--log-level", "warning",
        "--backlog", "4096", "--timeout-graceful-shutdown", "3",
    ]  # fmt: skip
    with (Path(env["DATA_DIR"]) / "server.log").open("ab") as log:
        process = subprocess.Popen(command, env=env, cwd=ROOT, stderr=log)
    try:
        _wait_for(port)
        yield Server(process, port, env)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:  # the peer, behind by minutes
            process.kill()
            process.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def a_run(server: Server) -> tuple[str, bytes]:
    """(id of a fresh run, the request by which its log is followed)"""
    subprocess.run([sys.executable, "-c", REGISTER], env=server.environment, cwd=ROOT, check=True)
    base = f"http://127.0.0.1:{server.port}/api/v1"
    signed_in = httpx.post(f"{base}/auth/sign-in", json=ADMIN)
    assert signed_in.status_code == 200, signed_in.text
    bearer = {"Authorization": f"Bearer {signed_in.json()['token']}"}
    made = httpx.post(f"{base}/executions", json={"suiteId": "hello"}, headers=bearer, timeout=30)
    assert made.status_code == 201, made.text
    run_id = made.json()["id"]
    head = f"GET /api/v1/executions/{run_id}/logs HTTP/1.1\r\nHost: localhost\r\n"
    return run_id, f"{head}Authorization: {bearer['Authorization']}\r\n\r\n".encode()


async def measure(server: Server, request: bytes, topic: str, followers: int) -> Figures:
    tally = Tally()
    for first in await connect(server.port, request, tally, count=1, kept=0):
        await asyncio.sleep(1)  # what the first one alone needs is no figure of followers
        first.transport.abort()
    before_kb = server.memory_kb()
    everyone = await connect(server.port, request, tally, count=followers, kept=2)
    seen_before = [follower.lines for follower in everyone]
    writer = await _writer(server, topic)
    await asyncio.sleep(WARM_UP_S)
    began, cpu_s, tally.measuring = time.monotonic(), server.cpu_s(), True
    await asyncio.sleep(SECONDS)
    took, tally.measuring = time.monotonic() - began, False
    cpu_s, after_kb = server.cpu_s() - cpu_s, server.memory_kb()
    written = int((await writer.communicate())[0])
    wanted = [before + written for before in seen_before]
    whole = await _drained(everyone, wanted)
    for follower in everyone:
        follower.transport.abort()
    return Figures(
        followers, followers * LINES_PER_S, tally.delivered / took,
        percentile(tally.latencies_ms, 0.5), percentile(tally.latencies_ms, 0.99),
        100 * cpu_s / took, (after_kb - before_kb) / followers, whole,
    )  # fmt: skip


async def _writer(server: Server, topic: str) -> asyncio.subprocess.Process:
    seconds = str(WARM_UP_S + SECONDS + 1)
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.sse_writer", topic, str(LINES_PER_S), seconds,
        env=server.environment, cwd=ROOT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert writer.stdout is not None
    assert writer.stdin is not None
    await writer.stdout.readline()
    writer.stdin.write(b"\n")
    await writer.stdin.drain()
    return writer


async def _drained(everyone: list[Follower], wanted: list[int]) -> bool:
    """All lines at all followers within 20 s, and dense numbers where they were kept."""
    deadline = time.monotonic() + 20
    while any(f.lines != lines for f, lines in zip(everyone, wanted, strict=True)):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.2)
    for follower in everyone:
        if follower.kept is not None:
            ids = follower.ids()
            if ids != list(range(1, len(ids) + 1)):
                return False
    return True


COLUMNS = (
    *("how", "followers", "offered/s", "delivered/s"),
    *("p50 ms", "p99 ms", "CPU", "KB each", "whole"),
)


def run(sizes: list[int]) -> None:
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as folder:
        env = environment(Path(folder))
        migrate = [sys.executable, "manage.py", "migrate", "-v0"]
        subprocess.run(migrate, env=env, cwd=ROOT, check=True)
        figures = [ours(env, followers) for followers in sizes]
        rows += [one.row("Partita") for one in figures]
        if env["REDIS_ADDR"]:
            rows += [peer(env, followers).row("Redis each") for followers in sizes]
    publish(
        "sse",
        f"All lines of a run that logs {LINES_PER_S:,} lines/s to all its followers, one server "
        f"process on one core, {env['DB_DRIVER']}; a delivery is one line to one follower.",
        COLUMNS,
        rows,
        _verdict(figures[-1]),
    )


def ours(env: dict[str, str], followers: int) -> Figures:
    with serving("platform_site.asgi:application", env) as server:
        run_id, request = a_run(server)
        return asyncio.run(measure(server, request, f"execution-logs:{run_id}", followers))


def peer(env: dict[str, str], followers: int) -> Figures:
    with serving("bench.sse_peer:application", env) as server:
        request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        return asyncio.run(measure(server, request, "-", followers))


def _verdict(most: Figures) -> str:
    if most.followers < MOST_FOLLOWERS:
        return "A partial run: the goals are for 1,000 followers."
    goals = {
        "500,000 deliveries/s": most.delivered >= 500_000,
        "p99 under 200 ms": most.p99_ms < 200,
        "under 60 KB a follower": most.kb_each < 60,
        "every line at every follower": most.whole,
    }
    return "Goals at 1,000 followers: " + ", ".join(
        f"{goal} {'met' if met else 'MISSED'}" for goal, met in goals.items()
    )


def main() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {OTHER_CORE})
    uvloop.install()
    run([int(size) for size in sys.argv[1:]] or [1, 100, MOST_FOLLOWERS])


if __name__ == "__main__":
    main()
