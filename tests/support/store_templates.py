"""Stores that have all migrations: made once a run, then copied.

To migrate an empty store of SQLite takes a process some 3 s of CPU, 1.4 s of it the migrations.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import psycopg

from tests.support import servers
from tests.support.processes import ROOT

TEMPLATE: Final = "partita_migrated"  # a database
SQLITE_FILE: Final = "partita.sqlite3"  # in the data folder of a control plane


def copy_sqlite_store(data_dir: Path) -> None:
    """Put a migrated store into the data folder of a control plane that has not started yet."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _template("sqlite") as (folder, is_new):
        if is_new:
            migrate({"DB_DRIVER": "sqlite", "DATA_DIR": str(folder)})
            with closing(sqlite3.connect(folder / SQLITE_FILE)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(folder / SQLITE_FILE, data_dir)
    (data_dir / SQLITE_FILE).chmod(0o600)


def create_database(server: str, name: str) -> str:
    """Create a migrated database on that PostgreSQL and return its address."""
    with _template(f"database-{server.rpartition(':')[2].partition('/')[0]}") as (_, is_new):
        if is_new:
            _execute(server, f'CREATE DATABASE "{TEMPLATE}"')
            migrate({"DB_DRIVER": "postgres", "POSTGRES_DSN": address_of(server, TEMPLATE)})
        _execute(server, f'CREATE DATABASE "{name}" TEMPLATE "{TEMPLATE}"')
    return address_of(server, name)


def copy_postgres_cluster(folder: Path) -> None:
    """Put a PostgreSQL cluster whose database `postgres` is migrated below `folder`."""
    with _template("cluster") as (template, is_new):
        if is_new:
            with servers.postgres(template) as found:
                dsn = found["TEST_POSTGRES_DSN"]
                migrate({"DB_DRIVER": "postgres", "POSTGRES_DSN": dsn})
        folder.mkdir(parents=True, exist_ok=True)
        command = ["cp", "-a", str(template / "postgres"), str(folder / "postgres")]
        subprocess.run(command, check=True)  # with its owner


def migrate(environment: Mapping[str, str]) -> None:
    """Migrate the store that `environment` names, in a process of its own."""
    command = [sys.executable, "manage.py", "migrate", "-v", "0"]
    known = {"PATH": os.environ["PATH"], "JWT_SECRET": "of-a-store-that-is-only-copied-0123456789"}
    subprocess.run(command, env={**known, **environment}, cwd=ROOT, check=True)


def address_of(server: str, database: str) -> str:
    return f"{server.rsplit('/', 1)[0]}/{database}"


def _execute(server: str, statement: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(statement)


@contextmanager
def _template(name: str) -> Iterator[tuple[Path, bool]]:
    """Yield the folder of that template, and whether it is to be made; one process at a time."""
    folder = _shared_folder() / "templates" / name
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / "made"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder, not made.exists()
        made.touch()


@cache
def _shared_folder() -> Path:
    """Return the folder that all processes of a run share, or one of this process."""
    if shared := os.environ.get("PARTITA_TEST_FOLDER"):
        return Path(shared)
    own = tempfile.mkdtemp(prefix="partita-templates-")
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return Path(own)
