from __future__ import annotations

import pytest

from apps.executions.rest.artifact_responses import ByteRange, RangeNotSatisfiable, requested_range


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("bytes=0-0", ByteRange(0, 0)),
        ("bytes=2-", ByteRange(2, 9)),
        ("bytes=2-4", ByteRange(2, 4)),
        ("bytes=2-99", ByteRange(2, 9)),
        ("bytes=-3", ByteRange(7, 9)),
        ("bytes=-99", ByteRange(0, 9)),
    ],
)
def test_a_range_is_cut_to_the_size(header, wanted):
    assert requested_range(header, size=10) == wanted


@pytest.mark.parametrize(
    "header", ["", "bytes=", "bytes=-", "lines=1-2", "bytes=4-2", "bytes=1-2,4-5", "bytes=a-b", "-"]
)
def test_what_is_no_single_range_asks_for_everything(header):
    assert requested_range(header, size=10) is None


@pytest.mark.parametrize(("header", "size"), [("bytes=10-", 10), ("bytes=-0", 10), ("bytes=-1", 0)])
def test_a_range_behind_the_end_is_refused(header, size):
    with pytest.raises(RangeNotSatisfiable):
        requested_range(header, size=size)
