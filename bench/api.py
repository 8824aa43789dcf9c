"""`python -m bench api [--quick]`: a plain authenticated request, beside a stock Django project."""

from __future__ import annotations

import json
import os
import re
import secrets
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import psutil
import psycopg

from bench.peers.environment import STOCK_DJANGO, NoPeer, peer_python
from bench.report import end_in_order, is_quick, publish
from bench.sse_client import percentile
from bench.stand import ROOT
from tests.support.cluster import ADMIN, Cluster
from tests.support.processes import Process, until
from tests.support.servers import free_port

GOAL: Final = 1.4
TURNS: Final = 1 if is_quick() else 5
ONE_BY_ONE: Final = 200 if is_quick() else 1000
TOGETHER: Final = 8
TOGETHER_S: Final = 1 if is_quick() else 3
ME: Final = "/api/v1/auth/me"
COLUMNS: Final = ("server", "credential", "CPU ms each", "p50 ms", "p99 ms", "requests/s")


@dataclass
class Target:
    server: str
    credential: str
    url: str
    headers: Mapping[str, str]
    process: psutil.Process
    cpu_ms: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    per_s: list[float] = field(default_factory=list)

    def measure(self) -> None:
        with httpx.Client(base_url=self.url, headers=dict(self.headers)) as client:
            for _ in range(50):
                client.get(ME).raise_for_status()
            before, taken = self._cpu_s(), []
            for _ in range(ONE_BY_ONE):
                started = time.perf_counter()
                client.get(ME).raise_for_status()
                taken.append((time.perf_counter() - started) * 1000)
            self.cpu_ms.append((self._cpu_s() - before) * 1000 / ONE_BY_ONE)
        self.p50_ms.append(percentile(taken, 0.5))
        self.p99_ms.append(percentile(taken, 0.99))
        self.per_s.append(self._rate())

    def _rate(self) -> float:
        """Requests a second on eight connections, each by its own thread."""
        done = [0] * TOGETHER
        until_s = time.perf_counter() + TOGETHER_S

        def ask(number: int) -> None:
            with httpx.Client(base_url=self.url, headers=dict(self.headers)) as client:
                while time.perf_counter() < until_s:
                    client.get(ME).raise_for_status()
                    done[number] += 1

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(TOGETHER)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(done) / TOGETHER_S

    def _cpu_s(self) -> float:
        times = self.process.cpu_times()
        return times.user + times.system

    def row(self) -> tuple[object, ...]:
        taken = (self.cpu_ms, self.p50_ms, self.p99_ms, self.per_s)
        return self.server, self.credential, *(round(statistics.median(each), 2) for each in taken)


def ours(cluster: Cluster) -> list[Target]:
    process = _of(cluster.processes["web"])
    bearer = {"Authorization": str(cluster.client.headers["Authorization"])}
    with httpx.Client(base_url=cluster.url) as browser:
        page = browser.get("/sign-in").text
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        assert token, page
        form = {**ADMIN, "csrfmiddlewaretoken": token[1]}
        answer = browser.post("/sign-in", data=form, headers={"Referer": f"{cluster.url}/sign-in"})
        assert answer.status_code == httpx.codes.FOUND, answer.text
        cookie = {"Cookie": f"partita_session={browser.cookies['partita_session']}"}
    return [
        Target("Partita", "access token", cluster.url, bearer, process),
        Target("Partita", "session cookie", cluster.url, cookie, process),
    ]


@contextmanager
def stock(cluster: Cluster) -> Iterator[list[Target]]:
    """The stock project on the same PostgreSQL server, served as ours is."""
    python = str(peer_python("stock-django", STOCK_DJANGO))
    server = httpx.URL(cluster.environment["POSTGRES_DSN"])
    with psycopg.connect(str(server.copy_with(path="/postgres")), autocommit=True) as connection:
        connection.execute("CREATE DATABASE stock")
    environment = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "SECRET_KEY": secrets.token_hex(32),
        "DJANGO_SETTINGS_MODULE": "bench.peers.stock.settings", "PGDATABASE": "stock",
        "PGHOST": server.host, "PGPORT": str(server.port), "PGUSER": server.username,
        "STATIC_ROOT": str(cluster.folder / "static"),
    }  # fmt: skip
    prepare = [python, "-m", "bench.peers.stock.prepare"]
    done = subprocess.run(prepare, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    account = json.loads(done.stdout)
    port = free_port()
    command = [python, "-m", "uvicorn", "bench.peers.stock.asgi:application", "--port", str(port),
               "--log-level", "warning", "--no-proxy-headers", "--no-access-log"]  # fmt: skip
    process = Process("stock", command, environment, cluster.folder / "stock.log")
    process.start()
    try:
        url = f"http://127.0.0.1:{port}"
        bearer = {"Authorization": f"Bearer {account['token']}"}
        cookie = {"Cookie": f"sessionid={account['session']}"}
        until(lambda: _answers(url, bearer), within_s=60, what=process.tail)
        yield [
            Target("stock Django", "access token", url, bearer, _of(process)),
            Target("stock Django", "session cookie", url, cookie, _of(process)),
        ]
    finally:
        process.end()


def _answers(url: str, headers: Mapping[str, str]) -> bool:
    try:
        return httpx.get(url + ME, headers=headers).is_success
    except httpx.TransportError:
        return False


def _of(process: Process) -> psutil.Process:
    assert process._process  # noqa: SLF001
    return psutil.Process(process._process.pid)  # noqa: SLF001


def verdict(targets: list[Target]) -> str:
    told = []
    for credential in ("access token", "session cookie"):
        cpu = {
            each.server: statistics.median(each.cpu_ms)
            for each in targets
            if each.credential == credential
        }
        ratio = cpu["Partita"] / cpu["stock Django"]
        met = "met" if ratio <= GOAL else "MISSED"
        told.append(f"{credential}: {ratio:.2f} times the CPU of the stock project")
        told[-1] += f" (goal {GOAL}: {met})"
    return "; ".join(told) + "."


def main() -> None:
    end_in_order()
    with (
        tempfile.TemporaryDirectory(prefix="partita-bench-") as folder,
        Cluster(Path(folder) / "cluster", parts=["web"]) as cluster,
    ):
        try:
            with stock(cluster) as peer:
                targets = [*ours(cluster), *peer]
                for _ in range(TURNS):
                    for target in targets:
                        target.measure()
        except NoPeer as error:
            raise SystemExit(f"no stock Django project here: {error}") from None
    publish(
        "api",
        "GET /api/v1/auth/me: who am I, with the workspace, on PostgreSQL and one uvicorn process. "
        "The stock project: Django's middleware, django-cors-headers, whitenoise, "
        "django-prometheus, REST framework, simplejwt; ours also limits, traces, logs and audits. "
        f"CPU and times by one client, one request after the other; requests/s by {TOGETHER}. "
        f"Medians of {TURNS} turns.",
        COLUMNS,
        [target.row() for target in targets],
        verdict(targets),
    )


if __name__ == "__main__":
    main()
