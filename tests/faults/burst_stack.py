"""Gateways, an orchestrator and its Celery worker: real processes on PostgreSQL, Redis and Git."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import redis

from tests.faults.burst_pushes import FILE, SECRET
from tests.support.git_server import HttpGit, served
from tests.support.processes import ROOT, Process, until
from tests.support.servers import database, free_port

DB: Final = 13
START_S: Final = 90
BIN = Path(sys.executable).parent
WAITING: Final = ("PENDING", "RUNNING", "RETRYING")
PARTS: Final = ("orchestrator", "worker", "gateway", "plain")


class BurstStack:
    """`gateway` has its inbox on, `plain` has none; both hand on to one orchestrator."""

    def __init__(
        self, folder: Path, *, redis_address: str, dsn: str, git: HttpGit, **variables: str
    ) -> None:
        self.folder = folder
        host, _, port = redis_address.rpartition(":")
        self.redis = redis.Redis(host=host, port=int(port), db=DB, decode_responses=True)
        self.ports = {name: free_port() for name in ("grpc", "http", "gateway", "plain")}
        config = folder / "config.json"
        config.write_text(json.dumps({"bundle": _bundle(host, int(port), git)}))
        self._environment = self._variables(config, dsn) | variables
        self.processes = {name: self._process(name) for name in PARTS}
        self.api = httpx.Client(base_url=f"http://127.0.0.1:{self.ports['http']}", timeout=30)

    def _variables(self, config: Path, dsn: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "APP_ENV": "test",
            "CONFIG_PATH": str(config),
            "DB_DRIVER": "postgres",
            "POSTGRES_DSN": dsn,
            "SECRET_KEY": secrets.token_urlsafe(48),
            "GIT_CACHE_DIR": str(self.folder / "cache"),
            "WORKER_CONCURRENCY": "3",
            "RECONCILE_INTERVAL": "0",  # nobody but the webhooks brings anything
            "ORCHESTRATOR_GRPC_ADDR": f"127.0.0.1:{self.ports['grpc']}",
            "ORCHESTRATOR_HTTP_ADDR": f"127.0.0.1:{self.ports['http']}",
            "ORCHESTRATOR_ADDR": f"127.0.0.1:{self.ports['grpc']}",
            "GATEWAY_RATE_GLOBAL": "off",
            "GATEWAY_RATE_PER_IP": "off",
            "GATEWAY_RATE_PER_KEY": "off",
        }

    def _process(self, name: str) -> Process:
        celery = [str(BIN / "celery"), "-A", "platform_site", "worker", "-Q", "sync"]
        lines = {
            "orchestrator": [sys.executable, "manage.py", "run_orchestrator"],
            "worker": [*celery, "--concurrency", self._environment["WORKER_CONCURRENCY"]],
        }
        gateway = {
            "GATEWAY_ADDR": f"127.0.0.1:{self.ports.get(name, 0)}",
            "ADMIN_ADDR": "127.0.0.1:0",
            "GATEWAY_INBOX": str(self.folder / "inbox.sqlite") if name == "gateway" else "",
        }
        line = lines.get(name, [sys.executable, "manage.py", "run_gateway"])
        return Process(name, line, self._environment | gateway, self.folder / f"{name}.log")

    def migrate(self) -> None:
        command = [sys.executable, "manage.py", "migrate", "-v", "0"]
        variables = self._environment | {"DJANGO_SETTINGS_MODULE": "platform_site.settings.sync"}
        subprocess.run(command, env=variables, cwd=ROOT, check=True, timeout=START_S)

    def start(self) -> None:
        for process in self.processes.values():
            process.start()
        for name in ("orchestrator", "gateway", "plain"):
            until(partial(self.serves, name), within_s=START_S, what=partial(self.tail, name))
        until(self._has_worker, within_s=START_S, what=partial(self.tail, "worker"))

    def _has_worker(self) -> bool:
        """It waits for messages: its queues are bound in the broker."""
        return bool(self.redis.exists("partita:broker:_kombu.binding.sync"))

    def serves(self, name: str) -> bool:
        """The orchestrator is ready; a gateway takes webhooks."""
        path = "/v1/health/readiness" if name == "orchestrator" else "/health/liveness"
        port = self.ports["http" if name == "orchestrator" else name]
        with suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=5).status_code == 200
        return False

    def kill(self, *names: str) -> None:
        """kill -9 of them and of all that they started."""
        for name in names:
            self.processes[name].end()

    def tasks(self, prefix: str) -> dict[str, list[dict[str, Any]]]:
        """The tasks of deliveries whose ids begin so, by delivery id."""
        found: dict[str, list[dict[str, Any]]] = {}
        query: dict[str, str | int] = {"limit": 200}
        while True:
            page = self.api.get("/v1/tasks", params=query).raise_for_status().json()
            for task in page["tasks"]:
                if task.get("delivery_id", "").startswith(prefix):
                    found.setdefault(task["delivery_id"], []).append(task)
            if "nextCursor" not in page:
                return found
            query["cursor"] = page["nextCursor"]

    def is_quiet(self) -> bool:
        """No task waits or runs."""
        query: dict[str, Any] = {"state": list(WAITING), "limit": 1}
        return not self.api.get("/v1/tasks", params=query).raise_for_status().json()["tasks"]

    def values(self, repository: str) -> dict[str, str]:
        found: dict[str, str] = self.redis.hgetall(destination(repository))  # type: ignore[assignment]
        return found

    def tail(self, name: str) -> str:
        return self.processes[name].tail()

    def end(self) -> None:
        self.kill(*self.processes)
        self.api.close()
        self.redis.flushdb()
        self.redis.close()


def destination(repository: str) -> str:
    return f"burst-production-{repository.partition('/')[2]}"


def _bundle(host: str, port: int, git: HttpGit) -> dict[str, Any]:
    return {
        "platforms": [{"github": {"endpoint": f"http://127.0.0.1:{git.port}", "secret": SECRET}}],
        "datasources": [{"redis": {"host": host, "port": port, "db": DB}}],
        "rules": [
            {
                "name": "burst",
                "platform": "github",
                "datasource": "redis",
                "repositories": ["acme/*"],
                "file_name": FILE,
                "root_key": "",
                "branch_map": {"main": "production"},
                "destination_template": "burst-{env}-{repo}",
                "sync_mode": "GIT_SMART_REPAIR",
            }
        ],
        "task_broker_datasource": "redis",
    }


@contextmanager
def burst_stack(
    folder: Path, *, redis_address: str, postgres: str, **variables: str
) -> Iterator[BurstStack]:
    """All of it on a database of its own; `folder`/bare is what Git serves."""
    name = f"burst_{secrets.token_hex(6)}"
    with (
        database(postgres, name) as dsn,
        served(HttpGit(folder / "bare")) as git,
    ):
        stack = BurstStack(folder, redis_address=redis_address, dsn=dsn, git=git, **variables)
        try:
            stack.redis.flushdb()
            stack.migrate()
            stack.start()
            yield stack
        finally:
            stack.end()
