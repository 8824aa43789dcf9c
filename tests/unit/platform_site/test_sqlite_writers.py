"""Writers of one SQLite file in a process queue; a file that nobody gets is away."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.db.utils import ConnectionHandler

from platform_site.sqlite.base import DatabaseWrapper
from platform_site.sqlite.write_queue import QueueStalled, WriteQueue
from tests.support.processes import until

WRITERS = 20
BUSY_S = 0.02  # inside each transaction; all of them take longer than `timeout`
OPTIONS = {"transaction_mode": "IMMEDIATE", "timeout": 0.1}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "store.sqlite3"
    with closing(sqlite3.connect(file, isolation_level=None)) as store:
        store.execute("PRAGMA journal_mode=wal")
        store.execute("CREATE TABLE counts (number INTEGER)")
        store.execute("INSERT INTO counts VALUES (0)")
    return file


@pytest.fixture
def connect(path: Path, django_db_blocker: Any) -> Iterator[Callable[[], DatabaseWrapper]]:
    """Opens a connection of its own, as each thread has one."""
    made: list[DatabaseWrapper] = []

    def opened() -> DatabaseWrapper:
        engine = {"ENGINE": "platform_site.sqlite", "NAME": str(path), "OPTIONS": OPTIONS}
        connection = ConnectionHandler({"default": engine})["default"]
        assert isinstance(connection, DatabaseWrapper)
        connection.inc_thread_sharing()
        made.append(connection)
        return connection

    with django_db_blocker.unblock():  # it is no database of Django's tests
        yield opened
        for connection in made:
            connection.close()


def in_transaction(connection: DatabaseWrapper, work: Callable[[], object]) -> None:
    connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
    try:
        work()
        connection.commit()
    finally:
        connection.set_autocommit(True)


def count_up(connection: DatabaseWrapper) -> None:
    """Read and write in one transaction, then write outside of any."""

    def read_and_write() -> None:
        with connection.cursor() as cursor:
            (number,) = cursor.execute("SELECT number FROM counts").fetchone()
            time.sleep(BUSY_S)
            cursor.execute("UPDATE counts SET number = %s", [number + 1])

    in_transaction(connection, read_and_write)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE counts SET number = number + 1")


def test_writers_of_a_process_wait_for_each_other_instead_of_failing(
    connect: Callable[[], DatabaseWrapper], path: Path
):
    errors: list[Exception] = []

    def write() -> None:
        try:
            count_up(connect())
        except OperationalError as error:
            errors.append(error)

    threads = [threading.Thread(target=write) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert errors == []
    with closing(sqlite3.connect(path)) as store:
        assert store.execute("SELECT number FROM counts").fetchone() == (2 * WRITERS,)


@pytest.mark.slow
def test_a_file_that_another_process_locks_is_locked_for_all_who_wait(
    connect: Callable[[], DatabaseWrapper], path: Path
):
    """Those behind the first give up with it, not one after another."""
    with closing(sqlite3.connect(path, isolation_level=None)) as stranger:
        stranger.execute("BEGIN IMMEDIATE")
        with pytest.raises(OperationalError, match="database is locked"):
            in_transaction(connect(), lambda: None)
        stranger.execute("ROLLBACK")

    count_up(connect())  # the turn of the one that failed has ended


@pytest.mark.parametrize("how", ["rolled back", "closed"])
def test_a_transaction_that_does_not_commit_ends_its_turn(
    connect: Callable[[], DatabaseWrapper], how: str
):
    connection = connect()
    connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
    if how == "closed":
        connection.close()
    else:
        connection.rollback()

    count_up(connect())


def test_turns_are_given_in_the_order_of_arrival():
    queue, order = WriteQueue(), list[int]()
    queue.take(stall_s=60)
    queue.note_lock()

    def write(number: int) -> None:
        with queue.turn(stall_s=60):
            order.append(number)

    def is_waiting(count: int) -> bool:
        return len(queue._waiting) == count

    threads = [threading.Thread(target=write, args=(number,)) for number in range(10)]
    for number, thread in enumerate(threads):
        thread.start()
        until(partial(is_waiting, number + 1), within_s=30, each_s=0.001)
    queue.leave()
    for thread in threads:
        thread.join(30)

    assert order == list(range(10))


def test_a_busy_store_is_waited_for_up_to_the_patience_and_one_that_is_away_only_briefly():
    queue = WriteQueue()
    queue.take(stall_s=60)  # whoever has the turn does not get the lock

    with pytest.raises(QueueStalled):
        queue.take(stall_s=0.0, patience_s=3600)
    queue.note_lock()
    with pytest.raises(QueueStalled):
        queue.take(stall_s=0.0, patience_s=0.3)

    queue.leave()
    with queue.turn(stall_s=0.0), suppress(QueueStalled):
        pass
