"""A reader that loses its connection 50 times, on two web processes, misses nothing.

The seed is printed; PARTITA_RECONNECT_SEED repeats a run.
"""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.cluster import ADMIN, Cluster
from tests.support.parts import need
from tests.support.processes import until
from tests.support.servers import free_port
from tests.support.up import write_suite

SEED = int(os.environ.get("PARTITA_RECONNECT_SEED", random.randrange(10**6)))
WRITERS, LINES, DISCONNECTS = 8, 4000, 50
SUITE = f"""
load("@partita/runtime", "task")

[
    task.run(name = "writer-%d" % n, image = "busybox:1.36", file = "write.sh")
    for n in range(1, {WRITERS} + 1)
]
"""
# a hundred lines at a time, for some eight seconds
WRITE = f"""
i=0
while [ $i -lt {LINES} ]; do
    i=$((i + 1)); echo "$i of {LINES}"
    [ $((i % 100)) -ne 0 ] || sleep 0.2
done
"""
pytestmark = [pytest.mark.postgres, pytest.mark.redis]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    need("TEST_REDIS_ADDR", "Redis")
    write_suite(tmp_path, "writers", SUITE, {"tasks/write.sh": WRITE})
    with Cluster(
        tmp_path / "cluster",
        postgres=need("TEST_POSTGRES_DSN", "PostgreSQL"),
        environment={"LOCAL_RUNTIME": "process"},
        suites=[tmp_path / "writers"],
    ) as cluster:
        yield cluster


@dataclass
class Reader:
    """An EventSource on a bad line: it keeps whole records only and comes back with the last id."""

    urls: list[str]
    path: str
    token: str
    draw: random.Random
    records: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def read_all(self, *, disconnects: int, most: int) -> Reader:
        """`most` records between two disconnects; then on to the end."""
        with httpx.Client(headers={"Authorization": f"Bearer {self.token}"}, timeout=60) as client:
            for nth in range(disconnects):
                self._visit(client, nth, stop_after=self.draw.randint(0, most))
            while not self.end:
                self._visit(client, disconnects, stop_after=10**9)
        return self

    def _visit(self, client: httpx.Client, nth: int, *, stop_after: int) -> None:
        """It leaves between any two bytes: what it has of a record by then is forgotten."""
        url = self.urls[nth % len(self.urls)]
        self.visits[url] += 1
        last = self.records[-1]["id"] if self.records else 0
        resume = {"Last-Event-ID": str(last)} if last else {}
        buffer, count = b"", 0
        with client.stream("GET", url + self.path, headers=resume) as answer:
            assert answer.status_code == 200, answer.read()
            for piece in answer.iter_bytes(self.draw.choice([17, 1000, 65536])):
                *whole, buffer = (buffer + piece).split(b"\n\n")
                for block in whole:
                    if count < stop_after and not self.end:
                        count += self._take(block)
                if count >= stop_after or self.end:
                    return

    def _take(self, block: bytes) -> bool:
        """Whether it was a record."""
        lines = block.decode().splitlines()
        fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
        if fields.get("event") == "end":
            self.end = json.loads(fields["data"])
        elif fields:
            assert "event" not in fields, block
            record = json.loads(fields["data"])
            assert fields["id"] == str(record["id"])
            self.records.append(record)
            return True
        return False

    def ids(self) -> list[int]:
        return [record["id"] for record in self.records]


def second_web(cluster: Cluster) -> str:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = cluster.add("web2", kind="web", PORT=str(port))

    def ready() -> bool:
        try:
            return httpx.get(f"{url}/readyz").status_code == 200
        except httpx.TransportError:
            return False

    until(ready, within_s=60, what=lambda: f"web2 is ready: {process.tail()}")
    return url


def token(url: str) -> str:
    answer = httpx.post(f"{url}/api/v1/auth/sign-in", json=ADMIN)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["token"])


def test_a_reader_that_disconnects_50_times_gets_every_record_once(cluster: Cluster):
    """Invariant 10."""
    print(f"PARTITA_RECONNECT_SEED={SEED}")
    urls = [cluster.url, second_web(cluster)]
    run_id = cluster.launch("writers")
    path = f"/api/v1/executions/{run_id}"
    logs, events = (
        Reader(urls, f"{path}/{stream}", token(urls[0]), random.Random(f"{SEED} {stream}"))
        for stream in ("logs", "events")
    )

    with ThreadPoolExecutor(2) as threads:
        most = WRITERS * LINES // DISCONNECTS  # so that half is left for the last visit
        reading = threads.submit(logs.read_all, disconnects=DISCONNECTS, most=most)
        threads.submit(events.read_all, disconnects=DISCONNECTS, most=1).result(120)
        reading.result(120)

    assert cluster.detail(run_id)["status"] == "Healthy"
    for reader in (logs, events):
        assert set(reader.visits) == set(urls), "both processes were read from"
        assert sum(reader.visits.values()) > DISCONNECTS
        assert reader.ids() == list(range(1, reader.end["lastId"] + 1))
        assert reader.end["status"] == "Healthy"
    assert logs.records == cluster.lines(run_id)
    assert [each["event"] for each in events.records] == cluster.detail(run_id)["events"]
    printed = defaultdict(list)
    for record in logs.records:
        if record["line"]["kind"] == "output":
            printed[record["line"]["source"]].append(record["line"]["text"])
    told = [f"{n} of {LINES}" for n in range(1, LINES + 1)]
    assert {source: len(lines) for source, lines in printed.items()} == {
        f"writer-{n}": LINES for n in range(1, WRITERS + 1)
    }
    assert all(lines == told for lines in printed.values()), "in order per step"
