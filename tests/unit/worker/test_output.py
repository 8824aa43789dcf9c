"""Records become lines: decoded, masked, cut; the same at every reading.

(reference: control-plane 11.2, 15.2)
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel import clock
from kernel.redaction import Redactor
from worker.domain.masked_output import LINE_LIMIT, LineCutter, LogWatch, cut
from worker.domain.output_records import OutputRecord

SECRET = "s3cret/+value"


def cutter(*secrets: str, watch: LogWatch | None = None) -> LineCutter:
    return LineCutter(Redactor(secrets), watch or LogWatch(()))


def fed(made: LineCutter, *data: bytes) -> list[tuple[str, bool]]:
    records = [OutputRecord(number, "stdout", each) for number, each in enumerate(data, start=1)]
    lines = [line for record in records for line in made.feed(record)] + made.finish()
    return [(line.text, line.continued) for line in lines]


def test_the_newline_is_taken_off_and_carriage_returns_stay() -> None:
    assert fed(cutter(), b"10%\r20%\r\n") == [("10%\r20%\r", False)]


@pytest.mark.parametrize("stamp", ["10000-01-01T00:00:00.00Z", "9999-99-99T99:99:99.999Z", "soon"])
def test_a_stamp_that_is_no_time_costs_no_line(stamp: str) -> None:
    before = clock.now()

    (line,) = cutter().feed(OutputRecord(1, "stdout", b"still here\n", stamp))

    assert (line.text, line.time >= before) == ("still here", True)


def test_invalid_utf8_is_replaced() -> None:
    assert fed(cutter(), b"a\xffb\n") == [("a�b", False)]


def test_a_character_cut_between_records_is_whole() -> None:
    head = b"a" * (LINE_LIMIT - 1) + "é".encode()[:1]

    lines = fed(cutter(), head, "é".encode()[1:] + b"\n")

    assert "".join(text for text, _ in lines) == "a" * (LINE_LIMIT - 1) + "é"


def test_all_pieces_of_a_long_line_but_the_last_are_continued() -> None:
    lines = fed(cutter(), b"a" * LINE_LIMIT, b"b" * LINE_LIMIT, b"c\n")

    assert [(text[0], len(text), continued) for text, continued in lines] == [
        ("a", LINE_LIMIT, True),
        ("b", LINE_LIMIT, True),
        ("c", 1, False),
    ]


def test_an_output_that_stops_inside_a_long_line_is_ended() -> None:
    lines = fed(cutter(), b"a" * LINE_LIMIT)

    assert [continued for _, continued in lines] == [True, False]


def test_a_secret_across_the_border_of_two_records_is_masked() -> None:
    text = b"x" * (LINE_LIMIT - 5) + SECRET.encode() + b" end\n"

    lines = fed(cutter(SECRET), text[:LINE_LIMIT], text[LINE_LIMIT:])

    whole = "".join(text for text, _ in lines)
    assert whole == "x" * (LINE_LIMIT - 5) + "*** end"


def test_a_watched_text_is_seen_across_the_border_of_two_records() -> None:
    watch = LogWatch(("needle",))

    fed(cutter(watch=watch), b"x" * (LINE_LIMIT - 3) + b"nee", b"dle\n")

    assert watch.has_seen("needle")


def test_a_watched_text_is_not_seen_across_two_lines_or_streams() -> None:
    watch = LogWatch(("needle",))
    made = cutter(watch=watch)

    made.feed(OutputRecord(1, "stdout", b"nee\n"))
    made.feed(OutputRecord(2, "stdout", b"dle\n"))

    assert not watch.has_seen("needle")


@given(st.text())
def test_pieces_are_within_the_limit_and_lose_nothing(text: str) -> None:
    pieces = cut(text, 7)

    assert "".join(pieces) == text
    assert all(len(piece.encode()) <= 7 for piece in pieces)


@given(
    st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=30)), max_size=12),
    st.integers(0, 12),
)
def test_reading_again_from_the_start_gives_the_same_lines(
    parts: list[tuple[str, bytes]], taken: int
) -> None:
    records = [OutputRecord(n, stream, data) for n, (stream, data) in enumerate(parts, 1)]  # type: ignore[arg-type]
    first, again = cutter(SECRET), cutter(SECRET)

    before = [[line.text for line in first.feed(record)] for record in records]
    after = [[line.text for line in again.feed(record)] for record in records]

    assert before[taken:] == after[taken:]
