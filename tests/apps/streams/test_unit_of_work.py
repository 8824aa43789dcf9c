"""Units of work: all or nothing, repeated after a lost race, bounded in time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from django.db import IntegrityError, OperationalError, connections
from pymongo.errors import BulkWriteError, DuplicateKeyError

from apps.streams import api as streams
from apps.streams.models import Topic

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.store]


def test_a_lost_race_repeats_the_outermost_use_case_as_a_whole():
    tries: list[int] = []

    @streams.unit_of_work
    def inner() -> None:
        if len(tries) < 3:
            raise streams.LostRace

    @streams.unit_of_work
    def outer() -> str:
        tries.append(1)
        streams.open_topics([f"try-{len(tries)}"])
        inner()
        return "done"

    assert outer() == "done"
    assert [topic.name for topic in Topic.objects.all()] == ["try-3"]


class MovedClock:
    """Stands in for `time`: a sleep moves it, nothing else does."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic(self) -> float:
        return self._now_s

    def sleep(self, pause_s: float) -> None:
        self._now_s += pause_s


@pytest.fixture
def clock(monkeypatch) -> MovedClock:
    clock = MovedClock()
    monkeypatch.setattr("apps.streams.services.unit_of_work.time", clock)
    return clock


def test_when_the_patience_is_used_up_the_datastore_is_unavailable(settings, clock):
    settings.UNIT_OF_WORK_PATIENCE_S = 0.1
    tries = []

    @streams.unit_of_work
    def never() -> None:
        tries.append(1)
        raise streams.LostRace

    with pytest.raises(streams.DatastoreUnavailable) as caught:
        never()
    assert caught.value.problem_code == "datastore_unavailable"
    assert len(tries) > 2
    assert 0.1 <= clock.monotonic() < 0.4


def test_of_two_that_create_the_same_row_the_later_one_finds_it():
    both_looked = threading.Barrier(2, timeout=0.5)

    @streams.unit_of_work
    def get_or_create() -> str:
        if Topic.objects.filter(name="shared").exists():
            return "found"
        with suppress(threading.BrokenBarrierError):  # SQLite lets one after the other look
            both_looked.wait()
        Topic.objects.create(name="shared")
        return "created"

    def racer() -> str:
        try:
            return get_or_create()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as racers:
        outcomes = [each.result() for each in [racers.submit(racer), racers.submit(racer)]]

    assert sorted(outcomes) == ["created", "found"]


def test_a_key_that_mongodb_says_is_taken_has_the_use_case_repeated():
    tries = []

    @streams.unit_of_work
    def taken_at_first() -> int:
        tries.append(1)
        if len(tries) == 1:  # as its backend raises it, from insert and from bulk insert
            raise IntegrityError from DuplicateKeyError("E11000 duplicate key error", 11000)
        if len(tries) == 2:
            raise IntegrityError from BulkWriteError({"writeErrors": [{"errmsg": "E11000 dup"}]})
        return len(tries)

    assert taken_at_first() == 3


def test_a_key_that_stays_taken_is_an_integrity_error_and_no_busy_store():
    streams.open_topics(["there"])
    tries = []

    @streams.unit_of_work
    def always_taken() -> None:
        tries.append(1)
        Topic.objects.create(name="there")

    with pytest.raises(IntegrityError):
        always_taken()
    assert len(tries) == 4


def test_a_key_that_is_taken_after_the_patience_is_no_busy_store_either(settings, clock):
    settings.UNIT_OF_WORK_PATIENCE_S = 2
    streams.open_topics(["there"])
    tries = []

    @streams.unit_of_work
    def slowly_taken() -> None:
        tries.append(1)
        clock.sleep(1.9)
        Topic.objects.create(name="there")

    with pytest.raises(IntegrityError):
        slowly_taken()
    assert len(tries) == 3


def test_another_integrity_error_is_raised_at_once():
    tries = []

    @streams.unit_of_work
    def broken() -> None:
        tries.append(1)
        raise IntegrityError("NOT NULL constraint failed: streams_topic.name")

    with pytest.raises(IntegrityError):
        broken()
    assert len(tries) == 1


def test_a_slow_attempt_that_lost_a_race_is_repeated(settings, clock):
    settings.UNIT_OF_WORK_PATIENCE_S = 2
    tries = []

    @streams.unit_of_work
    def slow_once() -> int:
        tries.append(1)
        if len(tries) == 1:
            clock.sleep(1.1)
            raise streams.LostRace
        return len(tries)

    assert slow_once() == 2


def test_a_locked_database_is_tried_again():
    tries = []

    @streams.unit_of_work
    def once_locked() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise OperationalError("database is locked")
        return len(tries)

    assert once_locked() == 2


def test_another_store_error_is_unavailable_at_once_and_hides_its_text():
    @streams.unit_of_work
    def broken() -> None:
        raise OperationalError("disk I/O error at /var/secret/place")

    with pytest.raises(streams.DatastoreUnavailable) as caught:
        broken()
    assert "secret" not in caught.value.detail


def test_any_other_error_undoes_everything_and_is_raised_as_it_is():
    @streams.unit_of_work
    def fail() -> None:
        streams.open_topics(["half"])
        raise KeyError("x")

    with pytest.raises(KeyError):
        fail()
    assert not Topic.objects.exists()
    streams.open_topics(["after"])
    assert Topic.objects.count() == 1
