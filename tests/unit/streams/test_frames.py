"""Framing and resuming (reference: control-plane 12)."""

from __future__ import annotations

import json

import pytest

from apps.streams.domain.chunks import Chunk, pack, unpack
from apps.streams.domain.sse_frames import MOST_BYTES, Wrapping, end, gap, page_of, resume_after
from kernel.errors import InvalidInput

LINES = Wrapping("line", {"executionId": "run-3f9a0c1be77d", "note": "100%"})
EVERY: frozenset[str] = frozenset()


def chunk(first: int, *records: bytes, source: str = "db") -> Chunk:
    return Chunk("logs", first, first + len(records) - 1, source, records)


def test_a_record_becomes_one_frame_with_its_number_and_the_wrapping():
    page = page_of([chunk(7, b'{"text":"a%d"}')], LINES, after=6, upto=7)

    frames = page.frames(EVERY)
    assert frames == (
        b'id: 7\ndata: {"id":7,"executionId":"run-3f9a0c1be77d","note":"100%",'
        b'"line":{"text":"a%d"}}\n\n'
    )
    assert json.loads(frames.split(b"data: ")[1])["line"] == {"text": "a%d"}


def test_a_wrapping_without_fields_holds_the_number_and_the_record():
    page = page_of([chunk(1, b"{}")], Wrapping("event", {}), after=0, upto=1)
    assert page.frames(EVERY) == b'id: 1\ndata: {"id":1,"event":{}}\n\n'


def test_what_is_missing_before_between_and_behind_chunks_is_a_gap():
    page = page_of([chunk(3, b"{}"), chunk(6, b"{}")], LINES, after=0, upto=9)

    assert page.last == 9
    ids = [line for line in page.frames(EVERY).split(b"\n") if line.startswith((b"id", b"ev"))]
    assert ids == [b"event: gap", b"id: 3", b"event: gap", b"id: 6", b"event: gap"]
    assert page.frames(EVERY).startswith(b'event: gap\ndata: {"from":1,"to":2}\n\n')
    assert page.frames(EVERY).endswith(b'event: gap\ndata: {"from":7,"to":9}\n\n')


def test_a_chunk_passed_over_is_no_gap_and_sources_are_told_apart():
    a, b = chunk(1, b'"a"', source="a"), chunk(2, b'"b"', source="b")
    passed_over = Chunk("logs", 3, 5, "c", ())

    page = page_of([a, b, passed_over], LINES, after=0, upto=5)

    assert b"gap" not in page.frames(EVERY)
    assert page.frames(frozenset("b")).startswith(b"id: 2\n")
    assert page.frames(frozenset("b")).count(b"id: ") == 1
    assert page.frames(frozenset("x")) == b""


def test_a_page_ends_between_two_records_once_it_is_large():
    big = b'"%s"' % (b"x" * 300_000)
    page = page_of([chunk(1, big, big, big, big, big)], LINES, after=0, upto=5)

    assert page.last == 4
    assert MOST_BYTES < page.size < MOST_BYTES + 310_000


def test_gap_and_end_frames_carry_no_id():
    assert gap(5, 9) == b'event: gap\ndata: {"from":5,"to":9}\n\n'
    assert end("Healthy", 41) == b'event: end\ndata: {"status":"Healthy","lastId":41}\n\n'


@pytest.mark.parametrize(
    ("since", "header", "expected"),
    [
        (None, None, 0),
        ("0", None, 0),
        ("7", None, 7),
        ("7", "9", 9),
        ("9", "7", 9),
        ("7", "nine", 7),
        (None, "-1", 0),
        (None, "٣", 0),
        ("0007", None, 7),
        ("9" * 5000, None, 10**18),
    ],
)
def test_a_stream_goes_on_after_the_larger_of_since_and_last_event_id(since, header, expected):
    assert resume_after(since=since, last_event_id=header) == expected


@pytest.mark.parametrize("since", ["", "-1", "1.5", "x", "1 ", " 1", "٣", "1\n"])
def test_a_since_that_is_no_whole_number_is_refused(since):
    with pytest.raises(InvalidInput) as caught:
        resume_after(since=since, last_event_id="5")
    assert caught.value.problem_code == "invalid_parameter"


def test_packed_records_come_back_as_they_were():
    few, many = [b"{}"], [b'{"n":%d}' % n for n in range(1000)]

    assert pack(few) == (b"{}", False)
    body, compressed = pack(many)
    assert compressed
    assert len(body) < sum(map(len, many)) / 2
    assert list(unpack(memoryview(body), compressed=True)) == many
