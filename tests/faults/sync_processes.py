"""The sync stack as processes: gateway, orchestrator, Celery workers and the watcher, one store."""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import signal
import sys
from pathlib import Path
from typing import Any, Final

import httpx
import redis

from tests.support.processes import Process, until
from tests.support.servers import free_port
from tests.support.webhooks import signed

_DBS: Final = (14, 15, 10, 9, 8)  # of the Redis server, which no other tests use
SECRET: Final = "a-webhook-secret-of-random-histories"
PRUNES: Final[tuple[dict[str, Any], ...]] = (
    {"enabled": True, "max_delete_ratio": 1.0, "allow_empty": True},
    {"enabled": True, "max_delete_ratio": 1.0, "allow_empty": True, "protection": ["protected"]},
)


class SyncProcesses:
    """`kills` of workers so far; who is killed is back at once, as under any supervisor."""

    def __init__(
        self,
        folder: Path,
        git_url: str,
        address: str,
        *,
        workers: int = 2,
        broker_url: str = "",
        dsn: str = "",
        **environment: str,
    ) -> None:
        """`address`: the Redis of the destinations, and of the broker unless `broker_url` is.

        `dsn`: a database of PostgreSQL as the store, instead of SQLite. `environment`: more of it.
        """
        self.folder = folder
        self._broker_url = broker_url
        self._more = environment
        if dsn:
            self._more |= {"DB_DRIVER": "postgres", "POSTGRES_DSN": dsn}
        host, _, port = address.rpartition(":")
        self._db = _own_db()
        self.redis: Any = redis.Redis(host=host, port=int(port), db=self._db, decode_responses=True)
        self.prefix = f"history-{secrets.token_hex(4)}"
        self._git_url, self._redis = git_url, (host, int(port))
        self.config = folder / "config.json"
        self.configure(0)
        self.grpc, self.http, self.port, *admin = (free_port() for _ in range(5))
        self.gateway = self._process("gateway", "run_gateway", ADMIN_ADDR=_local(admin[0]))
        self.orchestrator = self._process("orchestrator", "run_orchestrator")
        self.watcher = self._process("watcher", "run_watcher", ADMIN_ADDR=_local(admin[1]))
        self.workers = [self._worker(f"worker{number}") for number in range(workers)]
        self.kills = 0
        self._client = httpx.Client(timeout=30, trust_env=False)

    def configure(self, number: int) -> None:
        """Another bundle, as a reload finds it."""
        host, port = self._redis
        known: dict[str, Any] = {
            "platform": "github",
            "datasource": "redis",
            "repositories": ["acme/*"],
        }
        known |= {"file_name": "app.json", "self_heal": True, "retry_backoff": "500ms"}
        known |= {"prune": PRUNES[number % len(PRUNES)]}
        names = f"{self.prefix}-{{repo}}-{{env}}"
        mapped = {"branch_map": {"main": "production", "develop": "staging"}}
        features: dict[str, Any] = {"branches": ["feature-*"], "env_as_branch": True}
        features |= {"cleanup": {"on_branch_delete": "prune"}}
        github = {"endpoint": self._git_url, "secret": SECRET}
        bundle = {
            "platforms": [{"github": github}],
            "datasources": [{"redis": {"host": host, "port": port, "db": self._db}}],
            "rules": [
                {"name": "shop", "destination_template": names, **known, **mapped},
                {"name": "features", "destination_template": names, **known, **features},
            ],
            "task_broker_datasource": "redis",
        }
        written = self.config.with_suffix(".new")
        written.write_text(json.dumps({"bundle": bundle}))
        written.replace(self.config)

    def _process(self, name: str, command: str, **more: str) -> Process:
        line = [sys.executable, "manage.py", command]
        return Process(name, line, self._environment() | more, self.folder / f"{name}.log")

    def _worker(self, name: str) -> Process:
        line = [sys.executable, "-m", "celery", "-A", "platform_site", "worker", "-Q", "sync"]
        line += ["--concurrency", "2", "-n", f"{name}@{self.prefix}", "--without-mingle"]
        line += ["--without-gossip", "--without-heartbeat"]
        return Process(name, line, self._environment(), self.folder / f"{name}.log")

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "APP_ENV": "test",
            "CONFIG_PATH": str(self.config),
            "BUNDLE_RELOAD_INTERVAL": "1s",
            "DB_DRIVER": "sqlite",
            "SQLITE_PATH": str(self.folder / "store.sqlite3"),
            "SECRET_KEY": "a-secret-key-of-a-test-0123456789-0123456789-0123456789",
            "DATA_DIR": str(self.folder),
            "GIT_CACHE_DIR": str(self.folder / "cache"),
            "ORCHESTRATOR_GRPC_ADDR": _local(self.grpc),
            "ORCHESTRATOR_HTTP_ADDR": _local(self.http),
            "ORCHESTRATOR_ADDR": _local(self.grpc),
            "GATEWAY_ADDR": _local(self.port),
            "GATEWAY_BREAKER_OPEN": "1s",
            "POLL_INTERVAL": "5s",
            "RECONCILE_INTERVAL": "15s",
            **({"CELERY_BROKER_URL": self._broker_url} if self._broker_url else {}),
            **dict.fromkeys(
                ["GATEWAY_RATE_GLOBAL", "GATEWAY_RATE_PER_IP", "GATEWAY_RATE_PER_KEY"], "off"
            ),
            **self._more,
        }

    @property
    def _every(self) -> tuple[Process, ...]:
        return (self.orchestrator, self.gateway, self.watcher, *self.workers)

    def __enter__(self) -> SyncProcesses:
        self.redis.flushdb()
        try:
            self._migrate()
            for process in self._every:
                process.start()
            until(self.answers, within_s=240, what=self.tails)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _migrate(self) -> None:
        process = self._process("migrate", "migrate")
        process.start()
        assert process._process is not None
        assert process._process.wait(120) == 0, process.tail()

    def answers(self) -> bool:
        """Return whether the gateway is ready."""
        with contextlib.suppress(httpx.HTTPError):
            found = httpx.get(f"http://{_local(self.port)}/health/readiness", timeout=5)
            return found.status_code == httpx.codes.OK
        return False

    def __exit__(self, *_: object) -> None:
        for process in self._every:
            process.end()
        self.redis.flushdb()
        self.redis.close()
        self._client.close()

    def send(self, body: dict[str, Any], delivery: str) -> httpx.Response | None:
        """A signed push; None when nobody answers."""
        content = json.dumps(body).encode()
        headers = signed(content, secret=SECRET, delivery=delivery)
        with contextlib.suppress(httpx.TransportError):
            return self._client.post(
                f"http://{_local(self.port)}/webhooks/redis",
                content=content,
                headers=headers,
            )
        return None

    def get(self, path: str, **query: str) -> Any:
        """An answer of the orchestrator's API; None while it is away."""
        with contextlib.suppress(httpx.TransportError):
            found = self._client.get(f"http://{_local(self.http)}/v1/{path}", params=query)
            return found.json() if found.status_code == httpx.codes.OK else None
        return None

    def kill_one(self, chance: random.Random) -> None:
        """kill -9 of a worker and its children; seldom of the orchestrator."""
        victim = chance.choice([*self.workers * 4, self.orchestrator])
        process = victim._process
        assert process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        victim.kill()
        self.kills += 1
        victim.start()

    def revive(self) -> None:
        """What has ended is started again, whoever has ended it."""
        for process in self._every:
            if not process.running:
                process.start()

    def tails(self) -> str:
        return "\n".join(f"--- {each.name}\n{each.tail()[-1500:]}" for each in self._every)


def _own_db() -> int:
    """Return the database, for broker and destinations, of this worker of pytest-xdist.

    In a shared one a stack met the replay records of another, whose deliveries have the same ids,
    and emptied it at its end.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    return _DBS[int(worker.removeprefix("gw")) % len(_DBS)]


def _local(port: int) -> str:
    return f"127.0.0.1:{port}"
