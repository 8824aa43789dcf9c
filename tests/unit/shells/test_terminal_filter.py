"""A hostile step writes nothing but text into a terminal (reference: control-plane 11.7)."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.shells.domain.terminal_filter import TerminalFilter

KEPT = [  # arrives as it is
    "plain text, é € 😀 and\ttabs\r\n",
    "\x07\b\x0b\x0c",
    "\x1b[31;1mred\x1b[0m",
    "\x1b[38;5;196m\x1b[48;2;1;2;3m\x1b[4:3mcurly\x1b[m",
    "\x1b[10;20H\x1b[2J\x1b[K\x1b[?1K\x1b[3A\x1b[B\x1b[2C\x1b[D\x1b[5G\x1b[6d",
    "\x1b[2L\x1b[M\x1b[4P\x1b[@\x1b[X\x1b[S\x1b[T\x1b[2;20r\x1b[5b",
    "\x1b[s\x1b[u\x1b7\x1b8\x1bD\x1bE\x1bM\x1bH\x1b=\x1b>",
    "\x1b(0lqk\x1b(B",
    "\x1b[?25l\x1b[?25h\x1b[?1049h\x1b[?1049l\x1b[?1h\x1b[?7l\x1b[4h\x1b[?2004h",
]
CHANGED = [  # what a step writes → what arrives
    ("a\x1b]0;title\x07b", "ab"),
    ("a\x1b]2;title\x1b\\b", "ab"),
    ("a\x1b]1;icon\x9cb", "ab"),
    ("a\x1b]4;1;?\x07b", "ab"),
    ("a\x1b]7;file:///etc\x07b", "ab"),
    ("a\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
    ("a\x1b]9;note\x07b", "ab"),
    ("a\x1b]10;?\x07\x1b]11;?\x1b\\b", "ab"),
    ("a\x1b]52;c;cm0gLXJm\x07b", "ab"),
    ("a\x1b]133;A\x07b", "ab"),
    ("a\x1b]777;notify;x;y\x07b", "ab"),
    ("a\x1b]1337;SetUserVar=x=y\x07b", "ab"),
    ("a\x9d52;c;cm0gLXJm\x9cb", "ab"),
    ("a\x1b]0;never ended\r\nb", "a\r\nb"),
    ("a\x1b]0;then another \x1b[1mb", "a\x1b[1mb"),
    ("a\x1bP$qm\x1b\\b", "ab"),
    ("a\x1bP+q544e\x1b\\b", "ab"),
    ("a\x1bPq#0;2;0;0;0~\nmore\x1b\\b", "ab"),
    ("a\x1bP1;2|17/17\x07still inside\x1b\\b", "ab"),
    ("a\x90$qm\x9cb", "ab"),
    ("a\x1b_Gf=100;AAAA\x1b\\b", "ab"),
    ("a\x1b^secret\x1b\\b", "ab"),
    ("a\x1bXstring\x1b\\b", "ab"),
    ("a\x98string\x9cb\x9estring\x9cc\x9fstring\x9cd", "abcd"),
    ("a\x1b]0;ended by cancel\x18b\x1b]0;or by substitute\x1ac", "abc"),
    ("a\x1b[c\x1b[>c\x1b[=c\x1b[0cb\x1bZ", "ab"),
    ("a\x1b[5n\x1b[6n\x1b[?6nb", "ab"),
    ("a\x1b[18t\x1b[21t\x1b[8;99;99t\x1b[22;0tb", "ab"),
    ("a\x1b[x\x1b[1xb", "ab"),
    ("a\x1b[?25$p\x1b[>q\x1b[?u\x1b[>1u\x1b[=5;1ub", "ab"),
    ("a\x1b[>4;2m\x1b[?4mb", "ab"),
    ("a\x1b[?1000h\x1b[?1002h\x1b[?1003;1006h\x1b[?1004h\x1b[?9hb", "ab"),
    ("a\x1b[?25;1000;1049hb", "a\x1b[?25;1049hb"),
    ("a\x1b[20h\x1b[2hb", "ab"),
    ("a\x1b[?5h\x1b[?3h\x1b[?69h\x1b[?2026hb", "ab"),
    ("a\x1b[3Jb", "ab"),
    ("a\x1b[i\x1b[5i\x1b[4ib", "ab"),
    ('a\x1b[2 q\x1b[!p\x1b[1"qb', "ab"),
    ("a\x1b#8\x1b%G\x1bn\x1bo\x1b|\x1b F\x1b)0b", "ab"),
    ("a\x1bcb", "a\x1b[m\x1b[H\x1b[2Jb"),
    ("a\x9b31mb\x9b6nc", "a\x1b[31mbc"),
    ("a\x84\x85\x8d\x8e\x9ab", "ab"),
    ("a\x00\x05\x0e\x0f\x11\x13\x18\x1a\x7fb", "ab"),
    ("a\x1b[999999999bb", "ab"),
    ("a\x1b[3\n1mb", "a\n1mb"),
    ("a\x1b\x1b[1mb", "a\x1b[1mb"),
    ("a\x1b[5;6 unfinished", "anfinished"),
    ("a\x1b[1;", "a"),
    ("a\x1b", "a"),
]


def arrives(written: bytes, *, piece: int = 0) -> str:
    passing = TerminalFilter()
    step = piece or len(written) or 1
    pieces = [passing.feed(written[at : at + step]) for at in range(0, len(written), step)]
    return (b"".join(pieces) + passing.end()).decode()


@pytest.mark.parametrize("piece", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("text", KEPT)
def test_text_colors_and_cursor_moves_pass(text: str, piece: int):
    assert arrives(text.encode(), piece=piece) == text


@pytest.mark.parametrize("piece", [0, 1, 2, 3, 5])
@pytest.mark.parametrize(("written", "wanted"), CHANGED)
def test_everything_else_is_dropped(written: str, wanted: str, piece: int):
    assert arrives(written.encode(), piece=piece) == wanted


def test_a_raw_c1_byte_is_no_control():
    assert arrives(b"a\x9b6nb\xff\xfec") == "a\ufffd6nb\ufffd\ufffdc"


@given(st.binary(max_size=200), st.lists(st.integers(1, 40), max_size=12))
def test_where_the_bytes_are_cut_changes_nothing(written: bytes, sizes: list[int]):
    passing, at, pieces = TerminalFilter(), 0, []
    for size in [*sizes, len(written)]:
        pieces.append(passing.feed(written[at : at + size]))
        at += size

    assert (b"".join(pieces) + passing.end()).decode() == arrives(written)


WORDS = st.sampled_from(
    ["\x1b\\", *"\x1b\x9b\x9c\x9d\x07\x18[]P_?;16ncht qm$!>\n\\", "52", "c;AAAA", "text"]
)


@given(st.lists(WORDS, max_size=60).map("".join))
def test_what_arrives_passes_the_filter_again_unchanged(written: str):
    once = arrives(written.encode())

    assert arrives(once.encode()) == once
    assert not {"\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1bX"} & {
        once[at : at + 2] for at in range(len(once))
    }
    assert not any("\x80" <= char <= "\x9f" for char in once)


def test_an_unterminated_string_costs_no_memory():
    passing = TerminalFilter()
    piece = b"A" * 2**16
    passing.feed(b"\x1b]52;c;")
    tracemalloc.start()
    for _ in range(400):
        assert passing.feed(piece) == b""
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept < 10_000
    assert peak < 10 * 2**20


def test_endless_parameters_cost_no_memory():
    passing = TerminalFilter()
    passing.feed(b"\x1b[")
    for _ in range(1000):
        passing.feed(b"1")

    assert len(passing._rest) < 128
