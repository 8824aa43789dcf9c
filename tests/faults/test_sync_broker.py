"""The broker of the sync is away: what was accepted meanwhile ends without a restart."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.broker import FAULTS, Broker
from tests.faults.sync_git import GONE, MAIN, BareRepository, FlakyGit
from tests.faults.sync_processes import SyncProcesses
from tests.support.git_server import served
from tests.support.parts import need
from tests.support.processes import until

AWAY_S = 26.0  # longer than a beat may stand still
WITHIN_S = 60.0
TOLD_WITHIN_S = 20.0  # of a frozen broker nobody knows before calls to it time out
pytestmark = [pytest.mark.redis, pytest.mark.slow, pytest.mark.timeout(300)]


class Site:
    """A repository, and the stack that brings its file to Redis."""

    def __init__(self, stack: SyncProcesses, repository: BareRepository, broker: Broker) -> None:
        self.stack, self.repository, self.broker = stack, repository, broker
        self._pushes = 0

    def push(self) -> str:
        """The task of a push that was answered 202."""
        self._pushes += 1
        before = self.repository.heads.get(MAIN, GONE)
        text = json.dumps({"k1": f"value {self._pushes}"})
        after = self.repository.commit(MAIN, {"app.json": text})
        names = {"repository": {"full_name": self.repository.name}}
        body = {"ref": MAIN, "before": before, "after": after, **names}
        answer = self.stack.send(body, f"delivery-{self._pushes}")
        assert answer is not None
        assert answer.status_code == 202, answer.text
        return str(answer.json()["task_id"])

    @property
    def place(self) -> str:
        return f"{self.stack.prefix}-shop-production"

    def live(self) -> dict[str, str]:
        return dict(self.stack.redis.hgetall(self.place))

    def wanted(self) -> dict[str, str]:
        text = self.repository.trees[self.repository.heads[MAIN]]["app.json"]
        return dict(json.loads(text))

    def wait_ended(self, task_id: str, within_s: float = WITHIN_S) -> dict[str, Any]:
        def ended() -> dict[str, Any] | None:
            task = self.stack.get(f"tasks/{task_id}")
            return task if task and task["state"] in ("SUCCEEDED", "FAILED", "DEAD") else None

        return until(ended, within_s=within_s, what=lambda: f"{task_id} ends\n{self.stack.tails()}")

    def readiness(self) -> tuple[int, str]:
        """The status of the orchestrator's readiness, and what it says of the broker."""
        url = f"http://127.0.0.1:{self.stack.http}/v1/health/readiness"
        answer = httpx.get(url, timeout=5)
        return answer.status_code, answer.json()["checks"]["broker"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    address = need("TEST_REDIS_ADDR", "Redis")
    folder: Path = tmp_path_factory.mktemp("broker")
    git = folder / "git"
    (git / "acme").mkdir(parents=True)
    flaky = FlakyGit(git)
    with (
        Broker(folder) as broker,
        served(flaky),
        SyncProcesses(
            folder,
            f"http://127.0.0.1:{flaky.port}",
            address,
            workers=1,
            broker_url=broker.url,
        ) as stack,
    ):
        yield Site(stack, BareRepository(git, "acme/shop"), broker)


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_accepted_while_the_broker_is_away_ends_once_it_is_back(site: Site, fault: str):
    """Sync invariants 1, 7."""
    first = site.push()
    assert site.wait_ended(first)["state"] == "SUCCEEDED"
    until(lambda: site.readiness() == (200, "ok"), within_s=30, what="the broker is there")

    site.broker.begin(fault)
    begun = time.monotonic()
    accepted = [site.push(), site.push()]
    site.stack.redis.hset(site.place, "k1", "drifted")
    if fault != "flush":
        told = TOLD_WITHIN_S
        until(lambda: site.readiness() == (200, "degraded"), within_s=told, what="it is told")
        time.sleep(max(0.0, AWAY_S - (time.monotonic() - begun)))
    site.broker.end(fault)

    back = time.monotonic()
    tasks = [site.wait_ended(task_id) for task_id in accepted]
    assert [task["state"] for task in tasks] == ["SUCCEEDED", "SUCCEEDED"]
    left = WITHIN_S - (time.monotonic() - back)
    until(lambda: site.live() == site.wanted(), within_s=left, what="the drift is healed")
    until(lambda: site.readiness() == (200, "ok"), within_s=left, what="the broker is back")
