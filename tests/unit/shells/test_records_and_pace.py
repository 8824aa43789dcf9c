"""What the records of a shell hold, and when a reader of them looks again."""

from __future__ import annotations

import pytest

from apps.shells.domain.pace import BUSY_S, CALM_AFTER_S, QUIET_S, Pace, Silence
from apps.shells.domain.records import (
    TerminalSize,
    input_record,
    output_bytes,
    output_record,
    terminal_size,
    typed_by,
)


def test_records_carry_any_byte_without_a_newline():
    everything = bytes(range(256))
    typed: list[bytes | TerminalSize] = [everything, TerminalSize(columns=120, rows=40)]

    assert b"\n" not in output_record(everything)
    assert output_bytes(output_record(everything)) == everything
    assert typed_by(map(input_record, typed)) == typed


@pytest.mark.parametrize("columns", [0, -1, 1001, "80", 80.0, True, None])
def test_a_size_that_no_terminal_has_is_refused(columns: object):
    with pytest.raises(ValueError, match="columns must be a whole number from 1 to 1000"):
        terminal_size(columns, 24)


def test_a_reader_looks_often_only_after_activity():
    pace = Pace(0.0)

    assert pace.pause_s(1) == BUSY_S
    assert pace.pause_s(CALM_AFTER_S) == QUIET_S
    pace.note_activity(100)
    assert pace.pause_s(101) == BUSY_S


def test_silence_counts_only_the_time_in_which_one_could_look():
    silence = Silence(0.0)
    silence.read("a", 1)

    assert silence.read("a", 3) == 2
    assert silence.read("a", 500) == 7  # of a pause, 5 s count
    assert silence.read("b", 501) == 0
