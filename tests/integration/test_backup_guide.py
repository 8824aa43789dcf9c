"""docs/guides/backup-and-restore.md, command by command; then the restored folder is used."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pyotp
import pytest

from tests.support.guides import commands_of, prints
from tests.support.parts import need
from tests.support.processes import ROOT, until, write_partita
from tests.support.up import Up

GUIDE = "backup-and-restore.md"
EXAMPLE_URL = "postgresql://partita@db.example.com/partita"
pytestmark = pytest.mark.slow


@dataclass
class Original:
    """A used installation and what its reader sees of it."""

    up: Up
    folder: Path
    runs: list[dict[str, Any]]
    logs: dict[str, bytes]
    app: pyotp.TOTP
    credentials: dict[str, str]

    @property
    def backups(self) -> Path:
        return self.folder / "backups"

    def in_words_of(self, text: str) -> str:
        """A text of the guide, with the folders of this test."""
        places = {
            "sqlite:///srv/partita": f"sqlite://{self.up.data}",
            "/srv/partita": str(self.up.data),
            "/srv/trial": str(self.folder / "trial"),
            "/srv/restored": str(self.folder / "restored" / "data"),
            "/mnt/backups": str(self.backups),
        }
        for theirs, ours in places.items():
            text = text.replace(theirs, ours)
        return text


def read_logs(up: Up, token: str, runs: list[dict[str, Any]]) -> dict[str, bytes]:
    """The downloads of all runs, in both forms."""
    bearer = {"Authorization": f"Bearer {token}"}
    found = {}
    for run in runs:
        for form in ("ndjson", "txt"):
            address = f"{up.url}/api/v1/executions/{run['id']}/logs/download?format={form}"
            answer = httpx.get(address, headers=bearer, timeout=60)
            assert answer.status_code == 200, answer.text
            found[f"{run['id']} {form}"] = answer.content
    return found


def list_runs(up: Up, token: str) -> list[dict[str, Any]]:
    address, bearer = f"{up.url}/api/v1/executions", {"Authorization": f"Bearer {token}"}
    return list(httpx.get(address, headers=bearer, timeout=60).json()["executions"])


def sign_in(up: Up, credentials: dict[str, str], **code: str) -> httpx.Response:
    body = credentials | code
    return httpx.post(f"{up.url}/api/v1/auth/sign-in", json=body, timeout=60)


def add_second_factor(up: Up, credentials: dict[str, str]) -> pyotp.TOTP:
    """Turn it on by the page of the account, as people do."""
    with httpx.Client(base_url=up.url, timeout=60, follow_redirects=True) as client:
        client.get("/sign-in")

        def post(path: str, **fields: str) -> str:
            token = client.cookies["csrftoken"]
            answer = client.post(path, data=fields | {"csrfmiddlewaretoken": token})
            assert answer.status_code == 200, answer.text
            return answer.text

        post("/sign-in", **credentials)
        page = post("/account/second-factor/begin")
        secret = re.search(r"data-secret[^>]*>([^<]+)<", page)
        assert secret, page
        app = pyotp.TOTP(secret[1].strip())
        assert "data-recovery-codes" in post("/account/second-factor/confirm", code=app.now())
    return app


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Original]:
    folder = tmp_path_factory.mktemp("original")
    up = Up(folder / "first", UP_DEMO="0", LOCAL_RUNTIME="process")
    for name in ("configuration.yaml", "svc-profiles.yaml"):
        (folder / name).write_text("")
    (folder / "backups").mkdir()
    (folder / "restored").mkdir()
    write_partita(folder)
    try:
        up.start()
        ran = up.partita("run", "launch", "hello", "--watch")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        credentials = up.credentials()
        token = str(sign_in(up, credentials).json()["token"])
        runs = list_runs(up, token)
        logs = read_logs(up, token, runs)
        app = add_second_factor(up, credentials)
        yield Original(up, folder, runs, logs, app, credentials)
    finally:
        up.end()


@pytest.fixture
def postgres_url() -> Iterator[str]:
    server = need("TEST_POSTGRES_DSN", "a PostgreSQL server")
    name = f"partita_guide_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield f"{server.rpartition('/')[0]}/{name}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def follow(original: Original, steps: list[tuple[str, list[str]]], **environment: str) -> None:
    """Run commands of the guide in one shell; each prints what the guide says."""
    words = "".join(f"{command}\nprintf '\\036'\n" for command, _ in steps)
    script = original.in_words_of(words)
    kept = {"PORT", "DATA_DIR"}
    known = {key: value for key, value in original.up.environment.items() if key not in kept}
    ended = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{script}"],
        cwd=original.folder, env=known | environment, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    said = ended.stdout.split("\x1e")
    assert len(said) == len(steps) + 1, ended.stdout
    for (command, expected), output in zip(steps, said, strict=False):
        lines = [original.in_words_of(line) for line in expected]
        assert prints(output, lines), f"$ {command}\n{output}\ninstead of\n{expected}"


@pytest.mark.postgres
def test_the_guide_can_be_followed(original: Original, postgres_url: str):
    steps = commands_of(GUIDE)
    for program in ("sqlite3", "pg_dump"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    first_of_move = next(n for n, (said, _) in enumerate(steps) if said.startswith("export"))
    assert (len(steps), first_of_move) == (14, 11)

    follow(original, steps[:first_of_move])  # beside the running `up`
    original.up.end()
    moved = steps[first_of_move:]
    moved = [(said.replace(EXAMPLE_URL, postgres_url), lines) for said, lines in moved]
    follow(original, moved)

    restored = Up(original.folder / "restored", UP_DEMO="0", LOCAL_RUNTIME="process")
    store = {"DB_DRIVER": "postgres", "POSTGRES_DSN": postgres_url}
    try:
        assert_same(original, restored.start())
        restored.end()
        assert_same(original, restored.start(**store))
    finally:
        restored.end()


def assert_same(original: Original, up: Up) -> None:
    """The runs and logs are those of the original, and the app's codes sign in."""
    assert sign_in(up, original.credentials).json()["code"] == "second_factor_required"
    answer = until(
        lambda: _signed_in(sign_in(up, original.credentials, code=original.app.now())),
        within_s=90,  # a code counts once, and was used to turn the factor on
        what="a sign-in by the app's code",
        each_s=2,
    )
    token = str(answer.json()["token"])
    assert list_runs(up, token) == original.runs
    assert read_logs(up, token, original.runs) == original.logs


def _signed_in(answer: httpx.Response) -> httpx.Response | None:
    return answer if answer.status_code == 200 else None


def test_a_restore_that_is_killed_leaves_a_store_that_says_so(original: Original):
    archive = original.backups / "killed.backup"
    data = original.folder / "killed"
    data.mkdir()
    environment = original.up.environment | {"DATA_DIR": str(data)}
    saved = original.up.manage("store", "backup", str(archive))
    assert saved.returncode == 0, saved.stderr
    shutil.copy(original.up.data / "up.env", data)
    command = [sys.executable, "manage.py", "store", "restore", str(archive)]
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writer, b"." * 4096)  # full: the first line of progress waits, in the transaction

    with subprocess.Popen(command, env=environment, cwd=ROOT, stderr=writer) as restoring:
        until(lambda: marks(data), within_s=60, what="the mark of a restore", each_s=0.05)
        restoring.send_signal(signal.SIGKILL)
    os.close(writer)
    os.close(reader)

    refused = subprocess.run(
        [sys.executable, "manage.py", "store", "backup", str(data / "x.backup")],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert (refused.returncode, "half restored" in refused.stderr) == (5, True), refused.stderr
    again = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=90, check=False
    )
    assert again.returncode == 0, again.stderr
    assert marks(data) == 0


def marks(data: Path) -> int:
    """How many restores the store says are not complete."""
    file = data / "partita.sqlite3"
    if not file.exists():
        return 0
    with closing(sqlite3.connect(file)) as connection:
        try:
            found = connection.execute("SELECT count(*) FROM system_readinessmark").fetchone()
        except sqlite3.OperationalError:  # no such table yet
            return 0
    return int(found[0])


def test_a_restore_into_the_folder_of_a_running_up_is_refused(original: Original):
    archive = original.backups / "in-use.backup"
    assert original.up.manage("store", "backup", str(archive)).returncode == 0
    data = original.folder / "in-use"
    data.mkdir()
    shutil.copy(original.up.data / "up.env", data)

    with (data / "up.lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = original.up.manage("store", "restore", str(archive), DATA_DIR=str(data))

    assert (refused.returncode, "stop it first" in refused.stderr) == (5, True), refused.stderr
    assert not (data / "partita.sqlite3").exists()
