"""The real programs: an orchestrator, two watchers, Git and Redis."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import redis

from sync_stack.rpc.gen.partita.sync.v1 import orchestrator_pb2 as pb
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2_grpc import OrchestratorStub
from sync_stack.watcher.heal_state import REDIS_KEY, RedisHealStateStore, heal_state_of
from tests.support.git_server import Repository
from tests.support.parts import need
from tests.support.processes import Process, until
from tests.support.servers import free_port

pytestmark = pytest.mark.redis
DB = 11
PASSWORD = "a-password-that-nobody-may-see"


class Stack:
    """All of them on free ports, with one SQLite store."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.repository = Repository(folder / "git")
        host, _, port = address.rpartition(":")
        self.redis = redis.Redis(host=host, port=int(port), db=DB, decode_responses=True)
        self.prefix = f"watch-{uuid.uuid4().hex[:8]}"
        self.config = folder / "config.json"
        self.config.write_text(json.dumps({"bundle": self._bundle(host, int(port))}))
        self.grpc, self.http = free_port(), free_port()
        self.admin = [free_port(), free_port()]
        self.orchestrator = self._process("orchestrator", "run_orchestrator")
        self.watchers = [
            self._process(f"watcher{number}", "run_watcher", ADMIN_ADDR=f"127.0.0.1:{port}")
            for number, port in enumerate(self.admin)
        ]

    def _bundle(self, host: str, port: int) -> dict[str, Any]:
        return {
            "platforms": [
                {"github": {"endpoint": f"file://{self.repository.folder}/bare", "token": PASSWORD}}
            ],
            "datasources": [{"redis": {"host": host, "port": port, "db": DB}}],
            "rules": [
                {
                    "name": "shop",
                    "platform": "github",
                    "datasource": "redis",
                    "repositories": ["acme/*"],
                    "file_name": "app.yaml",
                    "branch_map": {"main": "production"},
                    "destination_template": f"{self.prefix}-{{env}}",
                    "self_heal": True,
                }
            ],
            "watcher_state_datasource": "redis",
        }

    def _process(self, name: str, command: str, **more: str) -> Process:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "CONFIG_PATH": str(self.config),
            "DB_DRIVER": "sqlite",
            "SQLITE_PATH": str(self.folder / "store.sqlite3"),
            "SECRET_KEY": "a-secret-key-of-a-test-0123456789-0123456789-0123456789",
            "GIT_CACHE_DIR": str(self.folder / "cache"),
            "ORCHESTRATOR_GRPC_ADDR": f"127.0.0.1:{self.grpc}",
            "ORCHESTRATOR_HTTP_ADDR": f"127.0.0.1:{self.http}",
            "ORCHESTRATOR_ADDR": f"127.0.0.1:{self.grpc}",
            "POLL_INTERVAL": "1s",
            **more,
        }
        line = [sys.executable, "manage.py", command]
        return Process(name, line, environment, self.folder / f"{name}.log")

    @property
    def destination(self) -> str:
        return f"{self.prefix}-production"

    def migrate(self) -> None:
        process = self._process("migrate", "migrate")
        process.start()
        assert process._process is not None
        assert process._process.wait(60) == 0, process.tail()

    def push(self, files: dict[str, str | None]) -> None:
        commit = self.repository.commit(files)
        body = {"ref": "refs/heads/main", "after": commit, "repository": {"full_name": "acme/shop"}}
        request = pb.ProcessWebhookRequest(
            platform="github",
            datasource="redis",
            event="push",
            raw_payload=json.dumps(body).encode(),
            idempotency_key=commit,
            signature_verified=True,
        )
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc}") as channel:
            grpc.channel_ready_future(channel).result(30)
            OrchestratorStub(channel).ProcessWebhook(request, timeout=10)

    def readiness(self, number: int) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.admin[number]}/health/readiness"
        with contextlib.suppress(httpx.HTTPError):
            return dict(httpx.get(url).json())
        return {}

    def is_ready(self, number: int) -> bool:
        return self.readiness(number).get("status") == "READY"

    def metric(self, number: int, start: str) -> float:
        text = httpx.get(f"http://127.0.0.1:{self.admin[number]}/metrics").text
        return sum(float(each.split()[-1]) for each in text.splitlines() if each.startswith(start))

    def drift(self) -> list[dict[str, Any]]:
        return list(httpx.get(f"http://127.0.0.1:{self.http}/v1/drift").json()["drift"])

    def end(self) -> None:
        for process in (*self.watchers, self.orchestrator):
            process.end()
        for name in (self.destination, f"{self.destination}:__partita__"):
            self.redis.delete(name)
        self.redis.close()


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path, need("TEST_REDIS_ADDR", "Redis"))
    try:
        made.migrate()
        made.orchestrator.start()
        yield made
    finally:
        made.end()


def test_what_somebody_changes_in_redis_is_put_back_also_by_the_next_leader(stack: Stack):
    """Sync invariants 24, 42."""
    stack.push({"app.yaml": "a: 1\nb: 2\n"})
    place = stack.destination
    until(lambda: stack.redis.hgetall(place) == {"a": "1", "b": "2"}, within_s=30)
    for number, watcher in enumerate(stack.watchers):
        watcher.start()
        until(partial(stack.is_ready, number), within_s=30)
    until(lambda: stack.readiness(0).get("targets") == 1, within_s=30, what="the first one leads")
    assert stack.readiness(0)["leader"] is True
    assert stack.readiness(1)["leader"] is False

    stack.redis.hset(place, mapping={"a": "changed", "theirs": "kept"})
    until(lambda: stack.redis.hget(place, "a") == "1", within_s=30, what=stack.watchers[0].tail)
    until(lambda: stack.drift() and stack.drift()[0]["state"] == "healed", within_s=30)
    assert stack.redis.hgetall(place) == {"a": "1", "b": "2", "theirs": "kept"}
    assert stack.metric(0, "svc_watcher_heal_verified_total") == 1
    assert stack.metric(0, "svc_watcher_drift_total") >= 1

    assert stack.watchers[0].stop(within_s=10) == 0
    until(lambda: stack.readiness(1).get("leader"), within_s=30, what=stack.watchers[1].tail)
    stack.redis.hdel(place, "b")
    until(lambda: stack.redis.hget(place, "b") == "2", within_s=40, what=stack.watchers[1].tail)

    (first, second) = (process.text() for process in stack.watchers)
    assert PASSWORD not in first + second
    lines = [json.loads(line) for line in first.splitlines()]
    told = next(line for line in lines if line["event"] == "drift_detected")
    assert told["changed"] == ["a"]
    assert "changed" not in told.get("values", {})


def test_a_watcher_outlives_the_orchestrator_and_is_not_ready_meanwhile(stack: Stack):
    stack.push({"app.yaml": "a: 1\n"})
    until(lambda: stack.redis.hget(stack.destination, "a") == "1", within_s=30)
    stack.watchers[0].start()
    until(lambda: stack.readiness(0).get("targets") == 1, within_s=30)
    stack.orchestrator.kill()
    until(lambda: stack.readiness(0).get("status") == "NOT_READY", within_s=30)
    stack.redis.hset(stack.destination, "a", "9")
    until(
        lambda: stack.metric(0, 'svc_watcher_heal_failed_total{datasource="redis"'),
        within_s=30,
        what=stack.watchers[0].tail,
    )
    stack.orchestrator.start()
    until(lambda: stack.redis.hget(stack.destination, "a") == "1", within_s=60)


def test_the_state_of_units_is_kept_in_redis_and_rubbish_there_counts_as_nothing():
    host, _, port = need("TEST_REDIS_ADDR", "Redis").rpartition(":")
    client = redis.Redis(host=host, port=int(port), db=DB)
    names = [f"unit-{uuid.uuid4().hex}" for _ in range(3)]
    store = RedisHealStateStore(client)
    try:
        store.save(names[0], {"heals": 2})
        client.hset(REDIS_KEY, names[1], "{rubbish")
        found = store.load(names)
        assert found == {names[0]: {"heals": 2}}
        assert heal_state_of(found[names[0]]).heals == 2
        assert heal_state_of({"heals": "many", "episodes": ["soon"]}).heals == 0
    finally:
        client.hdel(REDIS_KEY, *names)
        store.close()
