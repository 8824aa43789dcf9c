"""What `run shell` does with keys, and with the modes of a terminal that a program sets."""

from __future__ import annotations

import pytest

from partita_client.command.terminal.terminal_modes import (
    PlainOutput,
    TerminalModes,
    TypedEscapes,
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
