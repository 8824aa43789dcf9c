"""A server that all processes use is restarted, *then* something changes: is the change in force?

python -m tests.faults.restarts                       20 restarts of each server; needs PostgreSQL
python -m tests.faults.restarts --times 2 --server store --no-publish

Two web processes, a Celery worker, a runner and a remote worker; each change is made at one web
process and looked for where another process has to have noticed it. Between restarts, the store is
away for a while, and mocks that are in use must answer all the same.
"""

from __future__ import annotations

import argparse
import random
import signal
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from bench.report import end_in_order, publish
from tests.faults.rounds import SEED
from tests.support.cluster import SHARED_SECRET, Cluster
from tests.support.processes import until
from tests.support.servers import free_port, listens

SERVERS: Final = ("store", "redis")
IN_FORCE_S: Final = 5.0
PATIENCE_S: Final = 60.0  # for a change that is late: how late it is stands in the table
AWAY_S: Final = 12.0
MOCK_S: Final = 0.05
UNKNOWN_S: Final = 2.6
UNKNOWN: Final = 40
SUITE: Final = """\
load("@partita/runtime", "task")

task.run("say", command = ["echo", "round {number}"])
"""
CONTRACT: Final = """\
openapi: 3.0.3
info: {{title: Shop, version: "1"}}
paths:
  /goods:
    get:
      operationId: listGoods
      responses:
        "200":
          description: ok
          content: {{application/json: {{example: {{round: {number}}}}}}}
"""
COLUMNS: Final = ("restarted", "change", "times", "in force", "late", "p50 s", "max s")


class Site:
    """A cluster with a second web process, and the changes that can be made to it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        port = str(free_port())
        self.second = f"http://127.0.0.1:{port}"
        cluster.add("web2", "web", PORT=port)
        self.others = httpx.Client(
            base_url=f"{self.second}/api/v1",
            headers=cluster.client.headers,
            timeout=30,
            limits=httpx.Limits(max_keepalive_connections=2 * UNKNOWN),
        )
        until(lambda: listens(int(port)), within_s=120, what=cluster.processes["web2"].tail)
        self.changes: dict[str, Callable[[int], Callable[[], bool]]] = {
            "settings": self.change_settings,
            "suites": self.change_suites,
            "mocks": self.change_mocks,
            "agents": self.change_agents,
            "profiles": self.change_profiles,
            "run": self.change_run,
        }
        self.mocks = self.change_mocks(0)
        until(self.mocks, within_s=PATIENCE_S, what="the mocks are served")

    def restart(self, server: str) -> None:
        """As an administrator does: an orderly stop, and back at once."""
        process = self.cluster.processes["postgres" if server == "store" else "redis"]
        process.kill(signal.SIGINT)
        process.start()
        if server == "store":
            self.wait_store()

    def change_settings(self, number: int) -> Callable[[], bool]:
        """A backend more, which the runner has to offer and the other web process to list."""
        agents = [
            {"agentId": "local", "name": "Local", "type": "local", "default": True},
            {"agentId": "edge", "name": "Edge", "type": "remote-agent"},
            {"agentId": f"extra-{number}", "name": f"Extra {number}", "type": "local"},
        ]
        self._send("PUT", "/platform-settings", {"mode": "hybrid", "agents": agents})

        def is_offered() -> bool:
            suites = self._read("/executions/launch-suites").get("suites", ())
            backends = [each for suite in suites for each in suite["backends"]]
            return any(each["id"] == f"extra-{number}" and each["available"] for each in backends)

        return is_offered

    def change_suites(self, number: int) -> Callable[[], bool]:
        name = f"made-{number}"
        self._send("POST", "/suites", {"id": name, "suiteStar": SUITE.format(number=number)})
        return lambda: self._read(f"/suites/{name}").get("id") == name

    def change_mocks(self, number: int) -> Callable[[], bool]:
        """Another answer of the same mock."""
        self._send("DELETE", "/suites/mocked", None, fine=(204, 404))
        files = {"api/shop.yaml": CONTRACT.format(number=number)}
        body = {"id": "mocked", "suiteStar": SUITE.format(number=number), "files": files}
        self._send("POST", "/suites", body)
        return lambda: self.call_mock().json() == {"round": number}

    def change_agents(self, number: int) -> Callable[[], bool]:
        """An agent more."""
        name = f"agent-{number}"
        body = {"agentId": name, "backends": ["edge"], "incarnation": uuid.uuid4().hex}
        secret = {"Authorization": f"Bearer {SHARED_SECRET}"}
        self._send("POST", "/agents/register", body, headers=secret)
        return lambda: name in [each["agentId"] for each in self._read("/agents")["agents"]]

    def change_profiles(self, number: int) -> Callable[[], bool]:
        name = f"round-{number}.yaml"
        yaml = f"kind: Profile\nmetadata: {{id: round-{number}, name: Round {number}}}\n"
        body = {"name": f"Round {number}", "fileName": name, "scope": "workspace", "yaml": yaml}
        self._send("POST", "/profiles/suites/hello", body)

        def is_listed() -> bool:
            profiles = self._read("/profiles/suites/hello").get("profiles", ())
            return name in [each["fileName"] for each in profiles]

        return is_listed

    def change_run(self, number: int) -> Callable[[], bool]:
        """A run of the newest suite: web, broker or sweep, and runner have to play together."""
        del number
        answer = self._send("POST", "/executions", {"suiteId": "mocked", "backend": "local"})
        return lambda: self._read(f"/executions/{answer['id']}").get("status") == "Healthy"

    def call_mock(self, space: str = "mocked", *, within_s: float = 30) -> httpx.Response:
        url = f"{self.second}/mocks/rest/{space}/shop/goods"
        return self.others.get(url, timeout=within_s)  # one client: each reads certificates first

    def _send(
        self, method: str, path: str, body: Any, *, fine: Sequence[int] = (200, 201), **more: Any
    ) -> dict[str, Any]:
        """As a client does that heeds `503` and Retry-After, for a while."""

        def sent() -> httpx.Response | None:
            answer = self.cluster.client.request(method, path, json=body, **more)
            return None if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE else answer

        answer = until(sent, within_s=PATIENCE_S, what=f"{method} {path}")
        assert answer.status_code in fine, f"{method} {path}: {answer.text}"
        return dict(answer.json()) if answer.content else {}

    def _read(self, path: str) -> dict[str, Any]:
        answer = self.others.get(path)
        return dict(answer.json()) if answer.status_code == httpx.codes.OK else {}

    def wait_store(self) -> None:
        """Wait until the other web process finds the store."""

        def is_found() -> bool:
            components = self.others.get(f"{self.second}/readyz").json()["components"]
            return any(each["name"] == "datastore" and each["ready"] for each in components)

        until(is_found, within_s=PATIENCE_S, what=self.cluster.processes["web2"].tail)


@contextmanager
def installed(folder: Path) -> Iterator[Site]:
    """Servers and processes of their own, whose steps run as processes."""
    parts = ("web", "celery", "runner", "worker")
    with Cluster(folder, parts=parts, environment={"LOCAL_RUNTIME": "process"}) as cluster:
        site = Site(cluster)
        try:
            yield site
        finally:
            site.others.close()


@dataclass(slots=True)
class Outcome:
    """`seconds`: from each change until it was in force."""

    server: str
    change: str
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def late(self) -> int:
        return sum(second > IN_FORCE_S for second in self.seconds)

    def cells(self) -> list[object]:
        middle = round(statistics.median(self.seconds), 1) if self.seconds else ""
        longest = round(max(self.seconds), 1) if self.seconds else ""
        times = len(self.seconds) + len(self.wrong)
        in_force = len(self.seconds) - self.late
        return [
            self.server,
            self.change,
            times,
            in_force,
            self.late + len(self.wrong),
            middle,
            longest,
        ]


def restart_and_change(
    site: Site, server: str, times: int, chance: random.Random, *, first: int = 1
) -> list[Outcome]:
    """Restart the server and make every change, in another order each time."""
    outcomes = {name: Outcome(server, name) for name in site.changes}
    for number in range(first, first + times):
        site.restart(server)
        for name in chance.sample(sorted(site.changes), len(site.changes)):
            try:
                is_in_force = site.changes[name](number)
                began = time.monotonic()
                until(is_in_force, within_s=PATIENCE_S, what=f"{name} {number}", each_s=0.05)
            except (AssertionError, httpx.HTTPError) as error:
                outcomes[name].wrong.append(f"{server}, {name} {number}: {error}")
            else:
                outcomes[name].seconds.append(time.monotonic() - began)
    return list(outcomes.values())


@contextmanager
def store_away(site: Site, how: str) -> Iterator[None]:
    """`stopped` or `frozen`; it is back at the end."""
    process = site.cluster.processes["postgres"]
    if how == "frozen":
        process.freeze_family()
    else:
        process.kill(signal.SIGQUIT)
    try:
        yield
    finally:
        if how == "frozen":
            process.go_on_family()
        else:
            process.start()


def call_mocks(site: Site, seconds: float) -> list[float]:
    """Call the mock that is in use again and again; return how long each call took."""
    taken: list[float] = []
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        sent = time.perf_counter()
        answer = site.call_mock(within_s=8)
        taken.append(time.perf_counter() - sent)
        assert answer.status_code == httpx.codes.OK, answer.text
        time.sleep(0.05)
    return taken


def call_unknown(site: Site, count: int = UNKNOWN) -> list[float]:
    """Call unknown spaces at once; each is refused with `datastore_unavailable`."""

    def call(number: int) -> float:
        sent = time.perf_counter()
        answer = site.call_mock(f"unknown-{number}", within_s=20)
        assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE, answer.text
        return time.perf_counter() - sent

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(call, range(count)))


def measure_absence(site: Site, how: str, seconds: float) -> list[list[object]]:
    """Return the rows of mocks while the store is away: those in use, and unknown ones."""
    call_mocks(site, 1)
    with store_away(site, how):
        known = sorted(call_mocks(site, seconds))
        unknown = sorted(call_unknown(site))
    site.wait_store()
    rows: list[list[object]] = []
    for name, taken, limit in (("in use", known, MOCK_S), ("unknown", unknown, UNKNOWN_S)):
        late = sum(second > limit for second in taken)
        middle, longest = round(statistics.median(taken), 3), round(taken[-1], 3)
        rows.append(
            [f"store {how}", f"mock {name}", len(taken), len(taken) - late, late, middle, longest]
        )
    return rows


def main() -> int:
    end_in_order()
    options = _options()
    print(f"seed {options.seed}", flush=True)
    chance = random.Random(options.seed)
    rows: list[list[object]] = []
    wrong: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="partita-restarts-") as folder,
        installed(Path(folder)) as site,
    ):
        for turn, server in enumerate(options.server):
            first = 1 + turn * options.times
            for outcome in restart_and_change(site, server, options.times, chance, first=first):
                rows.append(outcome.cells())
                wrong += outcome.wrong
                print(" | ".join(map(str, rows[-1])), *outcome.wrong, sep="\n", flush=True)
        for how in ("stopped", "frozen"):
            rows += measure_absence(site, how, AWAY_S)
    late = sum(int(str(row[4])) for row in rows)
    for row in rows:
        print(" | ".join(map(str, row)), flush=True)
    if options.publish:
        publish(
            "restarts",
            f"A server of all processes is restarted, then something changes; late: not in force "
            f"within {IN_FORCE_S:g} s. `run` is a run's whole way. Mocks while the store is away: "
            f"late in use is more than {MOCK_S * 1000:g} ms, of {UNKNOWN} unknown spaces called at "
            f"once more than {UNKNOWN_S:g} s.",
            COLUMNS,
            rows,
            f"Seed {options.seed}: {late} late.",
            command=" ".join([".venv/bin/python -m tests.faults.restarts", *sys.argv[1:]]),
        )
    return 1 if wrong or late else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.restarts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--server", action="append", choices=SERVERS, help="repeatable; else all")
    parser.add_argument("--times", type=int, default=20, help="restarts of each server")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--no-publish", dest="publish", action="store_false")
    options = parser.parse_args()
    options.server = options.server or list(SERVERS)
    return options


if __name__ == "__main__":
    sys.exit(main())
