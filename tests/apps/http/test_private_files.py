"""What `up` writes is for its owner only, also in a folder that others could read before."""

from __future__ import annotations

import logging
import logging.config
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from platform_site.settings import embedded
from platform_site.sqlite.base import DatabaseWrapper


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def open_database(name: str) -> Any:
    settings: dict[str, Any] = {
        **connections["default"].settings_dict, "ENGINE": "platform_site.sqlite", "NAME": name,
        "OPTIONS": {},
    }  # fmt: skip
    wrapper = DatabaseWrapper(settings, "other")
    return wrapper.get_new_connection(wrapper.get_connection_params())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir()
    made.chmod(0o755)
    return made


def test_a_folder_that_existed_is_closed_with_what_up_wrote_there(folder: Path) -> None:
    names = ("up.env", "up.token", "up.log", "up.log.1", "partita.sqlite3", "partita.sqlite3-wal")
    for name in names:
        (folder / name).write_text("x")
        (folder / name).chmod(0o644)
    (folder / "others.txt").write_text("x")
    (folder / "others.txt").chmod(0o644)

    embedded.prepare(folder)

    assert mode(folder) == 0o700
    assert {mode(folder / name) for name in names} == {0o600}
    assert mode(folder / "others.txt") == 0o644


def test_a_new_folder_and_its_secrets_are_closed(tmp_path: Path) -> None:
    embedded.prepare(tmp_path / "a" / "data")

    assert mode(tmp_path / "a" / "data") == 0o700
    assert mode(tmp_path / "a" / "data" / "up.env") == 0o600


def test_the_log_is_closed_and_so_is_the_one_after_a_rotation(folder: Path) -> None:
    made = embedded.log_handlers(folder)["audit"] | {"maxBytes": 10, "filters": []}
    made.pop("formatter")
    config = logging.config.DictConfigurator({"version": 1})
    log = config.configure_handler(made)
    for _line in range(3):
        log.emit(logging.LogRecord("x", 20, "x", 1, "a line that is long enough", None, None))
    log.close()

    assert {path.name: mode(path) for path in folder.glob("up.log*")} == {
        "up.log": 0o600, "up.log.1": 0o600,
    }  # fmt: skip


def test_a_new_sqlite_file_and_its_log_are_closed(folder: Path) -> None:
    path = folder / "partita.sqlite3"
    before = os.umask(0o022)
    try:
        opened = open_database(str(path))
        opened.execute("PRAGMA journal_mode=wal")
        opened.execute("CREATE TABLE t (x)")
        modes = {each.name: mode(each) for each in folder.iterdir()}
    finally:
        os.umask(before)
    opened.close()

    assert modes["partita.sqlite3"] == modes["partita.sqlite3-wal"] == 0o600


def test_a_database_in_memory_makes_no_file(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(folder)

    opened = open_database(":memory:")

    assert isinstance(opened, sqlite3.Connection)
    opened.close()
    assert list(folder.iterdir()) == []
