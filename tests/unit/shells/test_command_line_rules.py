"""What the command line does with keys and modes, and when a reader looks again."""

from __future__ import annotations

import pytest

from apps.shells.domain.local_terminal import PlainOutput, TerminalModes, TypedEscapes
from apps.shells.domain.pace import BUSY_S, CALM_AFTER_S, QUIET_S, Pace, Silence
from apps.shells.domain.records import (
    TerminalSize,
    input_record,
    output_bytes,
    output_record,
    terminal_size,
    typed_by,
)


@pytest.mark.parametrize(
    ("typed", "passed", "leaves"),
    [
        (b"ls\r", b"ls\r", False),
        (b"~.", b"", True),
        (b"ls\r~.more", b"ls\r", True),
        (b"a~.", b"a~.", False),
        (b"~~x", b"~x", False),
        (b"~x", b"~x", False),
        (b"~", b"", False),
        (b"\x03\x04", b"\x03\x04", False),
    ],
)
def test_a_tilde_and_a_dot_at_the_beginning_of_a_line_leave(
    typed: bytes, passed: bytes, leaves: bool
):
    whole, split = TypedEscapes(), TypedEscapes()
    pieces = [split.feed(typed[at : at + 1]) for at in range(len(typed))]

    assert whole.feed(typed) == (passed, leaves)
    if not leaves:
        assert b"".join(piece for piece, _ in pieces) == passed
    assert any(left for _, left in pieces) == leaves


def test_modes_that_a_program_left_are_taken_back():
    modes = TerminalModes()
    for piece in (b"\x1b[?1049h\x1b[?25", b"l\x1b[?7l text \x1b[?2004h", b"\x1b[?7h\x1b[?1;2004l"):
        modes.feed(piece)

    assert modes.reset().startswith(b"\x1b[?1049l\x1b[?25h\x1b[m")
    assert b"2004" not in modes.reset()


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        (b"\x1b[?2004h$ ls\r\n\x1b[?2004l\rfile\r\n", b"$ ls\n\rfile\n"),
        (b"\x1b[?1;25hx", b"x"),
        (b"\x1b[31mred\x1b[m", b"\x1b[31mred\x1b[m"),
        (b"the end \x1b[?20", b"the end \x1b[?20"),
        (b"50 %\r", b"50 %\r"),
    ],
)
def test_what_goes_into_a_pipe_sets_no_modes_of_a_terminal(written: bytes, plain: bytes):
    whole, split = PlainOutput(), PlainOutput()
    pieces = [split.feed(written[at : at + 1]) for at in range(len(written))]

    assert whole.feed(written) + whole.finish() == plain
    assert b"".join(pieces) + split.finish() == plain


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
