"""Where a benchmark runs: a store of its own, its suites, and a child process that uses them.

Children of a benchmark, ours and peers alike, answer one JSON object a line to each that they get.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg

ROOT = Path(__file__).resolve().parents[1]


class Child:
    """`with Child(command, env) as child: child.ask(run="dag")` → what it answers."""

    def __init__(self, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, env=dict(environment), cwd=ROOT, stderr=errors,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
        self._log = log

    def __enter__(self) -> Child:
        self._answer()  # it says that it is ready
        return self

    def __exit__(self, *_exception: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()  # which is how it learns to end
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def ask(self, **question: Any) -> dict[str, Any]:
        """Raises RuntimeError, with the end of its log, when the child has ended instead."""
        self.tell(**question)
        return self._answer()

    def finish(self) -> dict[str, Any]:
        """Close its standard input and return what it answers at its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._answer()

    def tell(self, **question: Any) -> None:
        assert self._process.stdin is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            if line.startswith("{"):  # a peer may print what it likes besides
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError(f"{self._process.args!r} ended:\n{self._log.read_text()[-3000:]}")

    def process(self) -> psutil.Process:
        return psutil.Process(self._process.pid)


def questions() -> Iterator[dict[str, Any]]:
    """In the child: what it is asked, after it has said that it is ready."""
    answer(ready=True)
    for line in sys.stdin:
        yield json.loads(line)


def answer(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def suite(folder: Path, suite_id: str, source: str) -> None:
    (folder / suite_id).mkdir(parents=True)
    (folder / suite_id / "suite.star").write_text(source)


def environment(folder: Path, *, dsn: str = "", **more: str) -> dict[str, str]:
    """Settings on SQLite in `folder`, or on a new database of the server at `dsn`; migrated.

    Suites are read from `folder`/suites.
    """
    settings = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "platform_site.settings.production",
        "DATA_DIR": str(folder),
        "SUITES_DIR": str(folder / "suites"),
        "PLATFORM_SETTINGS_FILE": str(folder / "none.yaml"),
        "JWT_SECRET": secrets.token_urlsafe(48),
        "ADMIN_EMAIL": "bench@example.org",
        "ADMIN_PASSWORD": "Bench-0-password",
        "REDIS_ADDR": "",
        "LOG_LEVEL": "WARNING",
        **(_postgres(dsn) if dsn else {"DB_DRIVER": "sqlite"}),
        **more,
    }
    migrate = [sys.executable, "manage.py", "migrate", "-v0"]
    subprocess.run(migrate, env=settings, cwd=ROOT, check=True)
    return settings


def _postgres(dsn: str) -> dict[str, str]:
    name = f"bench_{secrets.token_hex(4)}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return {"DB_DRIVER": "postgres", "POSTGRES_DSN": f"{dsn.rpartition('/')[0]}/{name}"}


def drop_database(settings: Mapping[str, str], dsn: str) -> None:
    if settings["DB_DRIVER"] == "postgres":
        name = settings["POSTGRES_DSN"].rpartition("/")[2]
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def docker_host() -> str:
    """Ends the benchmark where there is no Docker."""
    if host := os.environ.get("TEST_DOCKER_HOST"):
        return host
    raise SystemExit("this benchmark needs Docker: run `make bench`, or set TEST_DOCKER_HOST")


@contextmanager
def runner(settings: Mapping[str, str], folder: Path) -> Iterator[Child]:
    """The real supervisor beside the store, in a process of its own (`bench.runner`)."""
    command = [sys.executable, "-m", "bench.runner"]
    with Child(command, settings, folder / "runner.log") as child:
        yield child


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep the cores busy meanwhile."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()
