"""Units of work: all or nothing, repeated after a lost race, bounded in time."""

from __future__ import annotations

import pytest
from django.db import OperationalError

from apps.streams import api as streams
from apps.streams.models import Topic
from apps.streams.services import unit_of_work as module

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


def test_after_two_seconds_of_lost_races_the_datastore_is_unavailable(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_S", 0.1)
    tries = []

    @streams.unit_of_work
    def never() -> None:
        tries.append(1)
        raise streams.LostRace

    with pytest.raises(streams.DatastoreUnavailable) as caught:
        never()
    assert caught.value.problem_code == "datastore_unavailable"
    assert len(tries) > 2


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
