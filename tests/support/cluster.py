"""Partita as it runs on servers: web, Celery worker, runner and remote worker, each a process.

Started on PostgreSQL and on a Redis of its own, killed and restarted at will.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg

from tests.support import servers, store_templates
from tests.support.processes import ROOT, Process, until

BIN = Path(sys.executable).parent
EXAMPLES = ROOT / "examples" / "oci-suites"
ADMIN = {"email": "admin@example.org", "password": "Admin-0-password"}
SHARED_SECRET: Final = "the-secret-that-workers-register-with"
START_S: Final = 60
LONG_S: Final = 5.0  # for a launch
TERMINAL: Final = ("Healthy", "Failed", "Canceled")
SETTINGS: Final = """\
mode: hybrid
agents:
  - {agentId: local, name: Local, type: local, default: true, routingTags: []}
  - {agentId: edge, name: Edge, type: remote-agent, routingTags: []}
"""
_OTHERS: Final = ("redis", "postgres", "celery")  # they print no stacks at SIGUSR1, or end by it
SECOND_HOST: Final = "partita-second"
# the name of its host and a program follow
_ON_HOST: Final = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"')

# holds the run RUN inside a transaction
LOCKING: Final = """
import os, time
from django.db import transaction
from django.db.models import F
from apps.executions.models import Execution
with transaction.atomic():
    Execution.objects.filter(run_id=os.environ["RUN"]).update(version=F("version") + 1)
    print("locked", flush=True)
    time.sleep(300)
"""


class Cluster:
    """`with Cluster(folder, …) as cluster:` starts everything named in `parts` and ends it all.

    `postgres`: the address of a server on which a database is made; None: a server of its own,
    the process `postgres`. `suites`: folders of suites beside the examples. `settings`: the text of
    configuration.yaml.
    """

    def __init__(
        self,
        folder: Path,
        *,
        parts: Iterable[str] = ("web", "celery", "runner"),
        environment: Mapping[str, str] | None = None,
        postgres: str | None = None,
        suites: Iterable[Path] = (),
        settings: str = SETTINGS,
    ) -> None:
        self.folder = folder
        self.port = servers.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.processes: dict[str, Process] = {}
        self._parts = tuple(parts)
        self._more = dict(environment or {})
        self._postgres = postgres
        self._suites = tuple(suites)
        self._settings = settings
        self._database = f"partita_{secrets.token_hex(6)}"
        self._client: httpx.Client | None = None
        self.environment: dict[str, str] = {}

    def __enter__(self) -> Cluster:
        try:
            self._prepare()
            for name in self._parts:
                self.add(name)
            self.wait_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._client is not None:
            self._client.close()
        ours = [name for name in self.processes if name not in ("redis", "postgres")]
        for name in [*ours, "redis"]:
            if name in self.processes:
                self.processes[name].end()
        if self._postgres:
            self._on_server(f'DROP DATABASE IF EXISTS "{self._database}" WITH (FORCE)')
        if "postgres" in self.processes:
            self.processes["postgres"].end()

    def _prepare(self) -> None:
        (self.folder / "data").mkdir(parents=True)
        (self.folder / "configuration.yaml").write_text(self._settings)
        suites = self.folder / "suites"
        for suite in (*EXAMPLES.iterdir(), *self._suites):
            shutil.copytree(suite, suites / suite.name)
        redis = self._start_redis()
        dsn = ""
        if self._more.get("DB_DRIVER") == "sqlite":
            store_templates.copy_sqlite_store(self.folder / "data")
        elif self._postgres is None:
            dsn = self._start_postgres()
        else:
            dsn = store_templates.create_database(self._postgres, self._database)
        self.environment = self._environment(dsn, redis) | self._more

    def _environment(self, dsn: str, redis: str) -> dict[str, str]:
        inherited = {
            key: os.environ[key] for key in ("PATH", "DOCKER_HOST", "HOME") if key in os.environ
        }
        return inherited | {
            "DJANGO_SETTINGS_MODULE": "platform_site.settings.production",
            "PYTHONUNBUFFERED": "1",
            "PYTHONFAULTHANDLER": "1",
            "DB_DRIVER": "postgres",
            "POSTGRES_DSN": dsn,
            "REDIS_ADDR": redis,
            "DATA_DIR": str(self.folder / "data"),
            "SUITES_DIR": str(self.folder / "suites"),
            "PLATFORM_SETTINGS_FILE": str(self.folder / "configuration.yaml"),
            "PROFILES_FILE": str(self.folder / "svc-profiles.yaml"),
            "PORT": str(self.port),
            "PUBLIC_API_URL": self.url,
            "JWT_SECRET": secrets.token_urlsafe(48),
            "AGENT_SHARED_SECRET": SHARED_SECRET,
            "ADMIN_EMAIL": ADMIN["email"],
            "ADMIN_PASSWORD": ADMIN["password"],
        }

    def _start_redis(self) -> str:
        port = servers.free_port()
        command = servers.redis_command(port)
        assert command, "redis-server is not installed"
        self._run("redis", command, {})
        until(lambda: servers.listens(port), within_s=START_S, what="Redis listens")
        return f"127.0.0.1:{port}"

    def _start_postgres(self) -> str:
        port = servers.free_port()
        store_templates.copy_postgres_cluster(self.folder)
        command = servers.postgres_command(self.folder, port, durable=True)
        assert command, "PostgreSQL is not installed"
        dsn = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        self._run("postgres", command, {}, user=servers.postgres_owner())
        until(lambda: _answers(dsn), within_s=START_S, what="PostgreSQL answers")
        return dsn

    def _on_server(self, statement: str) -> None:
        assert self._postgres
        with psycopg.connect(self._postgres, autocommit=True) as connection:
            connection.execute(statement)

    def _run(
        self,
        name: str,
        command: list[str],
        environment: Mapping[str, str],
        *,
        user: str | None = None,
    ) -> Process:
        log = self.folder / f"{name}.log"
        process = self.processes[name] = Process(name, command, environment, log, user=user)
        process.start()
        return process

    def add(
        self, name: str, kind: str | None = None, *, host: str = "", **environment: str
    ) -> Process:
        """Start one more process: `kind` is web, celery, runner, worker or shell.

        With `host` it sees that host name, and is a runner of another host.
        """
        kind = kind or name
        port = environment.get("PORT", str(self.port))
        commands = {
            # containers call its mocks
            "web": [str(BIN / "uvicorn"), "platform_site.asgi:application", "--host", "0.0.0.0",
                    "--port", port, "--log-level", "warning", "--no-proxy-headers"],
            "celery": [str(BIN / "celery"), "-A", "platform_site", "worker", "-Q", "default",
                       "-c", "2", "-l", "WARNING", "--without-gossip", "--without-mingle"],
            "runner": [sys.executable, "manage.py", "run_runner"],
            "worker": [sys.executable, "manage.py", "run_worker"],
            "shell": [sys.executable, "manage.py", "shell", "-c", LOCKING],
        }  # fmt: skip
        settings = self._of_a_worker(name) if kind == "worker" else self.environment
        command = [*_ON_HOST, host, *commands[kind]] if host else commands[kind]
        return self._run(name, command, settings | environment)

    def add_control_plane(self) -> str:
        """Start `web-2` and, on a host of its own, `runner-2`; return the URL of the former."""
        port = str(servers.free_port())
        url = f"http://127.0.0.1:{port}"
        self.add("web-2", "web", PORT=port, PUBLIC_API_URL=url)
        data = str(self.folder / "data-runner-2")
        self.add("runner-2", "runner", host=SECOND_HOST, DATA_DIR=data)
        return url

    def crash(self, name: str, *, away_s: float) -> None:
        """kill -9 of a process, which is back after `away_s`.

        PostgreSQL gets SIGQUIT, at which it ends without a checkpoint and recovers as from a crash:
        of a killed postmaster the other processes remain for a while, and it cannot start beside.
        """
        process = self.processes[name]
        process.kill(signal.SIGQUIT if name == "postgres" else signal.SIGKILL)
        time.sleep(away_s)
        process.start()

    def _of_a_worker(self, name: str) -> dict[str, str]:
        """It stands elsewhere: nothing of the store, and no secret but the shared one."""
        known = (
            *("PATH", "DOCKER_HOST", "HOME", "AGENT_SHARED_SECRET"),
            *("PYTHONUNBUFFERED", "PYTHONFAULTHANDLER"),
        )
        return {name: self.environment[name] for name in known if name in self.environment} | {
            "AGENT_PORT": str(servers.free_port()),
            "AGENT_ID": name,
            "AGENT_BACKENDS": "edge",
            "AGENT_CONTROL_PLANE_URL": self.url,
            "DATA_DIR": str(self.folder / f"data-{name}"),
        }

    def wait_ready(self) -> None:
        """Wait until the site is ready and, with a runner, a launch finds a backend."""
        if "web" in self.processes:
            until(
                lambda: is_ready(self.url),
                within_s=START_S,
                what=lambda: "web: " + self.processes["web"].tail(),
            )

        if {"web", "runner"} <= set(self.processes):
            until(self._has_backend, within_s=START_S, what="a backend is available")

    def _has_backend(self) -> bool:
        """Return whether the runner is online and its engine answered the last time."""
        suites = self.client.get("/executions/launch-suites").json()["suites"]
        return any(backend["available"] for suite in suites for backend in suite["backends"])

    @property
    def client(self) -> httpx.Client:
        """Signed in as the administrator."""
        if self._client is None:
            answer = httpx.post(f"{self.url}/api/v1/auth/sign-in", json=ADMIN, timeout=30)
            assert answer.status_code == 200, answer.text
            self._client = httpx.Client(
                base_url=f"{self.url}/api/v1",
                headers={"Authorization": f"Bearer {answer.json()['token']}"},
                timeout=30,
            )
        return self._client

    def get(self, path: str, **parameters: str) -> httpx.Response:
        """A GET that is repeated while the web process, or its store, is away."""

        def ask() -> httpx.Response | None:
            try:
                answer = self.client.get(path, params=parameters)
            except httpx.TransportError:
                return None
            return None if answer.status_code in (500, 502, 503) else answer

        answer = until(ask, within_s=60, what=f"GET {path}")
        assert answer.status_code == 200, f"{path}: {answer.text}"
        return answer

    def launch(self, suite: str, **body: Any) -> str:
        """Launch; wait for a backend whose supervisor is away, as after a kill or a freeze."""
        begun = time.monotonic()

        def ask() -> httpx.Response | None:
            answer = self.client.post("/executions", json={"suiteId": suite, **body})
            return None if "backend_unavailable" in answer.text else answer

        answer = until(ask, within_s=START_S, what=self._account_of_parts, each_s=1)
        if (waited_s := time.monotonic() - begun) > LONG_S:
            print(f"the launch waited {waited_s:.0f} s for its backend", flush=True)
        if answer.status_code != httpx.codes.CREATED:
            raise AssertionError(f"{answer.text}\n{self._account_of_parts()}")
        return str(answer.json()["id"])

    def detail(self, run_id: str) -> dict[str, Any]:
        return dict(self.get(f"/executions/{run_id}").json())

    def step(self, run_id: str, step_id: str) -> dict[str, Any]:
        return next(step for step in self.detail(run_id)["steps"] if step["id"] == step_id)

    def wait_over(self, run_id: str, *, within_s: float = 120) -> dict[str, Any]:
        """The run's detail once it is terminal; else AssertionError with what the parts say."""

        def over() -> dict[str, Any] | None:
            detail = self.detail(run_id)
            return detail if detail["status"] in TERMINAL else None

        try:
            return until(over, within_s=within_s, what=f"{run_id} is over", each_s=0.3)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.account_of(run_id)}") from None

    def account_of(self, run_id: str) -> str:
        """The run's events, its steps, and the ends of the logs of all processes."""
        parts = self._account_of_parts()
        try:
            detail = self.detail(run_id)
        except AssertionError as error:
            return f"{error}\n{parts}"
        steps = [
            f"{step['id']}: {step['status']} attempt {step['attempt']} {step.get('reason', '')}"
            for step in detail["steps"]
        ]
        events = [
            f"{event['time']} {event['id']}: {event['status']}, {event['text']}"
            for event in detail["events"]
        ]
        return "\n".join([f"{run_id}: {detail['status']}", *steps, *events, parts])

    def _account_of_parts(self) -> str:
        return "\n".join(self._account_of_process(each) for each in self.processes.values())

    def _account_of_process(self, process: Process) -> str:
        """Its state, the end of its log and, of our own programs, what each thread does."""
        log = process.tail()
        stacks = process.stacks() if process.name not in _OTHERS else ""
        return f"== {process.name} {process.state()}\n{log}\n{stacks}"

    def lines(self, run_id: str) -> list[dict[str, Any]]:
        """Every stored log record {id, executionId, line}, by the download route."""
        answer = self.get(f"/executions/{run_id}/logs/download", format="ndjson")
        return [json.loads(line) for line in answer.text.splitlines()]


def is_ready(url: str) -> bool:
    """Return whether the web process at this address is ready."""
    try:
        return httpx.get(f"{url}/readyz", timeout=5).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def _answers(dsn: str) -> bool:
    try:
        with psycopg.connect(dsn, connect_timeout=5) as connection:
            return connection.execute("SELECT 1").fetchone() is not None
    except psycopg.OperationalError:
        return False
