"""CPU and memory figures from what runtimes tell (reference: control-plane 11.2, usage)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from worker.domain.cpu_meter import CpuMeter
from worker.domain.runtime import Unit, UnitState
from worker.runtimes.docker.engine_http import parse_counters
from worker.runtimes.process.units import ProcessStat, consumption_of, parse_stat

STARTED = 1_000_000.0
UNIT = Unit(
    id="a",
    name="a",
    state=UnitState.RUNNING,
    started_at=datetime.fromtimestamp(STARTED, UTC),
)


def stats(cpu_ns: int = 0, **memory: Any) -> dict[str, Any]:
    return {"cpu_stats": {"cpu_usage": {"total_usage": cpu_ns}}, "memory_stats": memory}


def process(pid: int, parent: int, **facts: Any) -> ProcessStat:
    return ProcessStat(pid, parent, **{"cpu_s": 0.0, "reaped_s": 0.0, "resident_bytes": 0, **facts})


def test_the_first_look_is_compared_with_the_start():
    assert CpuMeter().percent(UNIT, at=STARTED + 2, cpu_s=1) == 50


def test_later_looks_are_compared_with_the_one_before():
    meter = CpuMeter()
    meter.percent(UNIT, at=STARTED + 2, cpu_s=1)

    assert meter.percent(UNIT, at=STARTED + 12, cpu_s=16) == 150


def test_each_unit_is_compared_with_itself():
    meter = CpuMeter()
    meter.percent(UNIT, at=STARTED + 2, cpu_s=1)

    assert meter.percent(replace(UNIT, id="b"), at=STARTED + 2, cpu_s=2) == 100


def test_a_look_right_after_another_tells_no_cpu_and_changes_nothing():
    meter = CpuMeter()
    meter.percent(UNIT, at=STARTED + 2, cpu_s=1)

    assert meter.percent(UNIT, at=STARTED + 2.01, cpu_s=1.01) is None
    assert meter.percent(UNIT, at=STARTED + 3, cpu_s=2) == 100


def test_without_a_start_the_first_look_tells_no_cpu():
    meter, unit = CpuMeter(), replace(UNIT, started_at=None)

    assert meter.percent(unit, at=STARTED + 2, cpu_s=1) is None
    assert meter.percent(unit, at=STARTED + 4, cpu_s=2) == 50


def test_a_clock_that_was_set_back_tells_no_cpu():
    meter = CpuMeter()

    assert meter.percent(UNIT, at=STARTED - 60, cpu_s=1) is None
    assert meter.percent(UNIT, at=STARTED - 50, cpu_s=2) == 10


@pytest.mark.parametrize("key", ["total_inactive_file", "inactive_file"])
def test_the_memory_of_a_container_is_without_inactive_files(key: str):
    counters = parse_counters(stats(2 * 10**9, usage=100, max_usage=300, stats={key: 40}))

    assert counters is not None
    assert (counters.cpu_s, counters.memory_bytes, counters.memory_peak_bytes) == (2, 60, 300)


def test_version_2_of_control_groups_tells_no_peak():
    counters = parse_counters(stats(usage=100, stats={"inactive_file": 100}))

    assert counters is not None
    assert (counters.memory_bytes, counters.memory_peak_bytes) == (100, None)


def test_a_container_that_has_ended_has_no_counters():
    assert parse_counters(stats()) is None


def test_processes_count_with_all_that_descends_from_the_wrapper_and_what_has_ended():
    processes = [
        process(9, 5, cpu_s=1.0, resident_bytes=10),  # a grandchild, listed before its parent
        process(1, 0, cpu_s=99.0, resident_bytes=99),
        process(4, 1, cpu_s=50.0, reaped_s=8.0, resident_bytes=50),  # the wrapper
        process(5, 4, cpu_s=2.0, reaped_s=4.0, resident_bytes=20),
    ]

    used = consumption_of(4, processes)

    assert used is not None
    assert (used.cpu_s, used.memory_bytes) == (15.0, 30)


@pytest.mark.parametrize("processes", [[], [process(4, 1)], [process(5, 4)]])
def test_without_wrapper_or_child_there_is_nothing(processes: list[ProcessStat]):
    assert consumption_of(4, processes) is None


def test_a_programs_name_may_look_like_fields():
    tail = (
        b"S 4 5 5 0 -1 4194304 1 0 0 0 250 50 700 0 20 0 1 0 12345 1000000 3 18446744073709551615"
    )

    found = parse_stat(b"77 (a) R 1 (b) " + tail)

    assert (found.pid, found.parent) == (77, 4)
    assert found.reaped_s / found.cpu_s == pytest.approx(7 / 3)
    assert found.resident_bytes % 3 == 0
