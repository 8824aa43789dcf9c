"""Cached reads: never older than a write before them, with Redis there, away and silent."""

from __future__ import annotations

import os
from typing import Any

import pytest

from apps.operations.api import CachedReads, raise_generation
from apps.streams.api import unit_of_work
from tests.support import servers
from tests.support.parts import need


class Source:
    """What is read; counts the reads."""

    def __init__(self) -> None:
        self.value: Any = {"n": 1}
        self.reads = 0

    def read(self) -> Any:
        self.reads += 1
        return self.value

    @unit_of_work
    def write(self, value: Any) -> None:
        self.value = value
        raise_generation("catalog")


@pytest.fixture
def source(transactional_db: None) -> Source:
    return Source()


@pytest.fixture
def with_redis(settings: Any) -> None:
    settings.REDIS_URL = f"redis://{need('TEST_REDIS_ADDR', 'Redis')}/0"
    settings.REDIS_PREFIX = f"reads-{os.getpid()}"


def test_a_value_is_computed_once_per_generation(source: Source) -> None:
    reads = CachedReads("catalog")

    first = [reads.get("all", source.read) for _ in range(3)]
    source.write({"n": 2})
    second = [reads.get("all", source.read) for _ in range(3)]

    assert (first, second) == ([{"n": 1}] * 3, [{"n": 2}] * 3)
    assert source.reads == 2


def test_a_write_in_one_process_is_seen_in_every_other(source: Source) -> None:
    here, there = CachedReads("catalog"), CachedReads("catalog")
    there.get("all", source.read)

    source.write({"n": 2})

    assert here.get("all", source.read) == there.get("all", source.read) == {"n": 2}


def test_a_value_is_computed_again_after_its_time(source: Source) -> None:
    now = [0.0]
    reads = CachedReads("catalog", clock=lambda: now[0])
    reads.get("all", source.read)
    now[0] += 46

    reads.get("all", source.read)

    assert source.reads == 2


def test_nothing_is_kept_that_a_transaction_may_take_back(source: Source) -> None:
    reads = CachedReads("catalog")

    class Undone(Exception):
        pass

    @unit_of_work
    def undone() -> None:
        raise_generation("catalog")
        source.value = {"n": "never committed"}
        assert reads.get("all", source.read) == {"n": "never committed"}
        raise Undone

    with pytest.raises(Undone):
        undone()
    source.write({"n": 2})

    assert reads.get("all", source.read) == {"n": 2}


@pytest.mark.redis
def test_redis_shares_a_value_between_processes(source: Source, with_redis: None) -> None:
    here, there = CachedReads("catalog"), CachedReads("catalog")

    source.write({"n": 7})
    assert here.get("shared", source.read) == there.get("shared", source.read) == {"n": 7}

    assert source.reads == 1


def test_without_an_answer_of_redis_values_are_computed(source: Source, settings: Any) -> None:
    with servers.silent() as addr:
        settings.REDIS_URL = f"redis://{addr}/0"
        reads = CachedReads("catalog")

        source.write({"n": 3})

        assert [reads.get(key, source.read) for key in "abc"] == [{"n": 3}] * 3
