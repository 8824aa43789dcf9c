from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kernel import clock
from kernel.durations import format_duration, parse_bytes, parse_cpu, parse_duration_ms


def test_times_are_written_in_utc_with_milliseconds() -> None:
    noon = datetime(2026, 1, 2, 3, 4, 5, 123999, tzinfo=timezone(timedelta(hours=2)))

    assert clock.rfc3339(noon) == "2026-01-02T01:04:05.123Z"


def test_what_is_written_is_read_back() -> None:
    instant = clock.now()

    assert clock.parse_rfc3339(clock.rfc3339(instant)) == instant
    assert instant.tzinfo is UTC


def test_early_years_are_written_with_four_digits() -> None:
    assert clock.rfc3339(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01T00:00:00.000Z"


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00+05:00"])
def test_a_time_that_is_none_in_utc_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="years 1 to 9999"):
        clock.parse_rfc3339(text)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-02T03:04:05"])
def test_a_time_without_offset_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"offset|isoformat"):
        clock.parse_rfc3339(text)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "00:00"), (-5, "00:00"), (59.9, "00:59"), (6000, "100:00")]
)
def test_durations_are_shown_as_minutes_and_seconds(seconds: float, shown: str) -> None:
    assert clock.mmss(timedelta(seconds=seconds)) == shown


@pytest.mark.parametrize(
    ("text", "ms"),
    [("250ms", 250), ("30s", 30_000), ("1m30s", 90_000), ("24h", 86_400_000), (1.5, 1500)],
)
def test_durations_are_read_as_people_write_them(text: str | float, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "250 ms"), (25, "25 s"), (1.5, "1.5 s"), (90, "90 s"), (600, "10 min"),
     (150, "2 min 30 s"), (14400, "4 h"), (9000, "2 h 30 min"), (3630, "1 h 30 s"),
     (150.5, "150.5 s")],
)  # fmt: skip
def test_durations_are_shown_in_the_units_that_people_use(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    "text", ["", "5", "s", "1d", "-1s", "0s", "1s2", 0, -1, True, float("inf")]
)
def test_other_durations_are_refused(text: str | float) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration_ms(text)


def test_sizes_and_cpus_are_read_as_people_write_them() -> None:
    assert [parse_bytes(text) for text in ("512Mi", "1G", "7", 9)] == [2**29, 10**9, 7, 9]
    assert [parse_cpu(text) for text in ("500m", "2", 0.5)] == [0.5, 2.0, 0.5]


@pytest.mark.parametrize("text", ["", "1 Mi", "Mi", "-1", "1MB"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["", "m", "0", "-1", "inf", "nan"])
def test_other_cpus_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="CPUs"):
        parse_cpu(text)
