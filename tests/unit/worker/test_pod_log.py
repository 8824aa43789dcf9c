"""Lines of a pod's log over broken streams: none lost, none twice, the same numbers again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator

import pytest

from worker.runtimes.kubernetes.pod_log import NotALog, PodLogReader, take_until

SIXTEEN_KIB = 16 * 1024


def stamp(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"2026-11-27T20:{seconds // 60:02d}:{seconds % 60:02d}.{rest:09d}Z"


class Log:
    """A container's log as the kubelet serves it: lines with times, from a second on."""

    def __init__(self, lines: list[tuple[int, bytes]]) -> None:
        self.lines = lines

    def since(self, text: str) -> bytes:
        found = (
            f"{stamp(time)} ".encode() + line + b"\n"
            for time, line in self.lines
            if not text or stamp(time)[:19] >= text[:19]
        )
        return b"".join(found)


def read(log: Log, draw: random.Random, *, breaks: int, after: int = 0) -> list[bytes]:
    """Read all of it in streams that break anywhere."""
    reader, found = PodLogReader(after), []
    for _ in range(breaks):
        data = log.since(reader.restart())
        for chunk in chunks(data[: draw.randrange(len(data) + 1)], draw):
            found += reader.feed(chunk)
    for chunk in chunks(log.since(reader.restart()), draw):
        found += reader.feed(chunk)
    found += reader.finish()
    assert [each.position for each in found] == list(range(after + 1, after + 1 + len(found)))
    return [each.data for each in found]


def chunks(data: bytes, draw: random.Random) -> list[bytes]:
    made = []
    while data:
        size = draw.randrange(1, 40_000)
        made.append(data[:size])
        data = data[size:]
    return made


def lines(draw: random.Random, count: int) -> list[tuple[int, bytes]]:
    time, made = 10**9, []
    for number in range(count):
        time += draw.choice([1, 50, 10**6, 4 * 10**8, 3 * 10**9, 0])
        length = draw.choice([0, 1, 20, SIXTEEN_KIB - 1, SIXTEEN_KIB, 3 * SIXTEEN_KIB + 5])
        made.append((time, (f"{number}:".encode() + b"x" * length)))
    return made


@pytest.mark.parametrize("seed", range(60))
def test_streams_that_break_anywhere_lose_and_repeat_nothing(seed: int) -> None:
    draw = random.Random(seed)
    written = lines(draw, draw.randrange(1, 40))

    found = read(Log(written), draw, breaks=draw.randrange(6))

    assert b"".join(found) == b"".join(line + b"\n" for _, line in written)
    assert max(map(len, found)) <= SIXTEEN_KIB


@pytest.mark.parametrize("seed", range(20))
def test_records_have_the_same_numbers_however_the_streams_broke(seed: int) -> None:
    draw = random.Random(seed)
    log = Log(lines(draw, 30))
    whole = read(log, draw, breaks=0)

    assert read(log, draw, breaks=5) == whole
    assert read(log, draw, breaks=3, after=7) == whole[7:]


def test_lines_of_two_streams_whose_times_are_out_of_order_are_all_kept() -> None:
    """The runtime of the node takes the time of a line before it writes it."""
    base = 10 * 10**9
    written = [(base + 5, b"a"), (base + 3, b"b"), (base + 9, b"c"), (base + 7, b"d")]
    for stop in range(200):
        reader, data = PodLogReader(), Log(written).since("")
        found = reader.feed(data[:stop]) if not reader.restart() else []
        found += reader.feed(Log(written).since(reader.restart()))
        assert [each.data for each in found] == [b"a\n", b"b\n", b"c\n", b"d\n"], stop


@pytest.mark.parametrize("seed", range(40))
def test_lines_out_of_order_over_a_second_survive_breaks_anywhere(seed: int) -> None:
    draw = random.Random(seed)
    time, written = 10**9, []
    for number in range(draw.randrange(2, 12)):
        time += draw.choice([10**8, 6 * 10**8])
        late = draw.choice([0, 0, 3 * 10**8, 8 * 10**8])
        length = draw.choice([1, 20, SIXTEEN_KIB + 5])
        written.append((time - late, f"{number}:".encode() + b"x" * length))

    found = read(Log(written), draw, breaks=draw.randrange(1, 6))

    assert b"".join(found) == b"".join(line + b"\n" for _, line in written)


def test_a_break_after_the_time_of_a_line_of_the_second_before() -> None:
    base = 10**9
    written = [(2 * base, b"a"), (2 * base - 5, b"b"), (2 * base + 1, b"c"), (2 * base + 2, b"d")]
    data = Log(written).since("")
    for stop in range(len(data)):
        reader = PodLogReader()
        found = reader.feed(data[:stop]) if not reader.restart() else []
        for more in (1, 40, 70):  # breaks again before anything new
            found += reader.feed(Log(written).since(reader.restart())[:more])
        found += reader.feed(Log(written).since(reader.restart()))
        assert [each.data for each in found] == [b"a\n", b"b\n", b"c\n", b"d\n"], stop


def test_after_a_rotation_the_lines_behind_the_last_one_are_taken() -> None:
    base = 10 * 10**9
    written = [(base + number, f"{number}".encode()) for number in range(10)]
    reader = PodLogReader()
    reader.restart()
    found = reader.feed(Log(written[:6]).since(""))

    found += reader.feed(Log(written[4:]).since(reader.restart()))

    assert [int(each.data) for each in found] == list(range(10))


def test_a_time_with_an_offset_is_told_in_utc_and_asked_for_with_its_offset() -> None:
    reader = PodLogReader()
    reader.restart()

    found = reader.feed(b"2026-11-27T22:40:02.123456789+02:00 hello\n")

    assert found[0].time == "2026-11-27T20:40:02.123Z"
    assert reader.restart() == "2026-11-27T22:40:01+02:00"


SENTENCE = b'failed to try resolving symlinks in path "/var/log/pods/a/0.log": no such file'


def test_a_sentence_of_the_kubelet_is_no_line_of_the_step() -> None:
    reader = PodLogReader()
    reader.restart()

    with pytest.raises(NotALog, match="failed to try resolving symlinks"):
        reader.feed(SENTENCE)

    reader.restart()
    found = reader.feed(Log([(10**9, b"a"), (10**9 + 1, b"b")]).since(""))
    assert [each.data for each in found] == [b"a\n", b"b\n"]


def test_lines_before_a_sentence_of_the_kubelet_are_taken() -> None:
    log = Log([(10**9, b"a"), (10**9 + 1, b"b")])
    reader = PodLogReader()
    reader.restart()

    found = reader.feed(log.since("") + SENTENCE)
    found += reader.feed(log.since(reader.restart()))

    assert [each.data for each in found] == [b"a\n", b"b\n"]


async def test_a_stream_is_left_when_its_step_has_ended() -> None:
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    closed = []

    async def lines() -> AsyncGenerator[str]:
        try:
            yield "one"
            ended.set_result(None)
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async def end() -> None:
        await ended

    over = asyncio.create_task(end())
    taken = [each async for each in take_until(over, lines())]

    assert (taken, closed) == (["one"], [True])


async def test_a_stream_that_ends_by_itself_is_read_to_its_end() -> None:
    async def lines() -> AsyncGenerator[str]:
        yield "one"
        yield "two"

    over = asyncio.create_task(asyncio.Event().wait())
    taken = [each async for each in take_until(over, lines())]
    over.cancel()

    assert taken == ["one", "two"]
