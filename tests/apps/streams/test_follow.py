"""Following a topic: replay, then live, every record once and in order."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from contextlib import aclosing

import pytest

from apps.streams import api as streams
from apps.streams import selectors
from apps.streams.models import StoredChunk
from apps.streams.services import hub as hub_module
from tests.apps.streams.conftest import Seen, append, follow, read_all, read_until, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.store]


async def test_a_follower_gets_what_is_stored_then_what_comes_then_the_end(hub, open_logs):
    await append(open_logs, "one", "two")

    async with aclosing(follow(open_logs)) as frames:
        seen = await read_until(frames, Seen(), lambda s: len(s.ids) == 2)
        await append(open_logs, "three", source="api")
        await read_until(frames, seen, lambda s: len(s.ids) == 3)
        await stored(streams.close_topic, open_logs, "Healthy")
        await read_until(frames, seen, lambda s: bool(s.of(b"end")))
        with pytest.raises(StopAsyncIteration):
            await anext(frames)

    assert seen.frames[0] == b": connected"
    assert seen.ids == [1, 2, 3]
    assert seen.texts == ["one", "two", "three"]
    assert seen.of(b"end") == [{"status": "Healthy", "lastId": 3}]


async def test_a_stream_opened_after_the_end_replays_and_ends_the_same_way(hub, open_logs):
    """Invariant 12."""
    await append(open_logs, "one", "two", "three")
    await stored(streams.close_topic, open_logs, "Failed")

    whole, part = await read_all(follow(open_logs)), await read_all(follow(open_logs, after=2))
    beyond = await read_all(follow(open_logs, after=99))

    assert whole.ids == [1, 2, 3]
    assert part.ids == [3]
    assert beyond.ids == []
    for seen in (whole, part, beyond):
        assert seen.of(b"end") == [{"status": "Failed", "lastId": 3}]


async def test_a_value_beyond_the_last_number_counts_as_the_last_number(hub, open_logs):
    """Invariant 10."""
    await append(open_logs, "one")

    async with aclosing(follow(open_logs, after=5)) as frames:
        assert await anext(frames) == b": connected\n\n"
        waiting = asyncio.ensure_future(anext(frames))
        await asyncio.sleep(0.3)
        await append(open_logs, "two")
        seen = Seen()
        seen.take(await waiting)

    assert seen.ids == [2]


async def test_a_reader_that_comes_from_another_process_gets_nothing_twice(
    hub, open_logs, monkeypatch
):
    """Invariant 10: it has read what the hub of this process has not polled yet."""
    polled, resumed = asyncio.Event(), asyncio.Event()
    poll = hub_module.Hub._poll

    async def pause(hub: hub_module.Hub) -> None:
        polled.set()
        await resumed.wait()
        await poll(hub)

    async with aclosing(follow(open_logs)) as frames:
        await append(open_logs, "one")
        await read_until(frames, Seen(), lambda s: s.ids == [1])
        monkeypatch.setattr(hub_module.Hub, "_poll", pause)
        await polled.wait()
        await append(open_logs, "two", "three")

        async with aclosing(follow(open_logs, after=3)) as others:
            assert await anext(others) == b": connected\n\n"
            waiting = asyncio.ensure_future(anext(others))
            await asyncio.sleep(0)  # it has begun to read
            resumed.set()
            await append(open_logs, "four")
            seen = Seen()
            seen.take(await waiting)

    assert seen.ids == [4]


async def test_sources_narrow_a_stream_and_what_they_skip_is_no_gap(hub, open_logs):
    """Invariant 10."""
    for number in range(30):
        await append(open_logs, f"a{number}", source="a")
        await append(open_logs, f"b{number}", f"b{number}+", source="b")

    async with aclosing(follow(open_logs, sources=["a", "c"])) as frames:
        seen = await read_until(frames, Seen(), lambda s: len(s.ids) == 30)
        await append(open_logs, "later b", source="b")
        await append(open_logs, "later c", source="c")
        await stored(streams.close_topic, open_logs, "Healthy")
        await read_until(frames, seen, lambda s: bool(s.of(b"end")))

    assert seen.texts == [*(f"a{n}" for n in range(30)), "later c"]
    assert seen.ids == [*range(1, 90, 3), 92]
    assert seen.of(b"gap") == []


async def test_a_replay_of_many_pages_is_whole_and_meets_the_live_end(hub, open_logs):
    """Invariant 10."""
    for start in range(0, 5000, 700):
        await append(open_logs, *(str(n) for n in range(start, start + 700)))

    async with aclosing(follow(open_logs, after=123)) as frames:
        seen = await read_until(frames, Seen(), lambda s: len(s.ids) > 2000)
        await append(open_logs, "last")
        await read_until(frames, seen, lambda s: s.texts[-1] == "last")

    assert seen.ids == list(range(124, 5602))


@pytest.mark.slow
async def test_a_slow_follower_reads_on_from_the_store_and_loses_nothing(hub, open_logs):
    """Invariants 10, 37 and 38."""
    async with aclosing(follow(open_logs)) as slow, aclosing(follow(open_logs)) as quick:
        behind, ahead = Seen(), Seen()
        await append(open_logs, "0")
        await read_until(slow, behind, lambda s: len(s.ids) == 1)
        for turn in range(1, 40):
            await append(open_logs, *(f"{turn}.{n}" for n in range(100)))
            await read_until(quick, ahead, lambda s: len(s.ids) > turn * 100)  # noqa: B023
        assert (
            sum(
                p.last - p.after
                for p in hub_module.process_hub()._feeds["", open_logs]._pages.values()  # type: ignore[attr-defined]
            )
            <= 1000
        )
        await read_until(slow, behind, lambda s: len(s.ids) == 3901)

    assert behind.ids == ahead.ids == list(range(1, 3902))


def left_or_over(frames: int) -> Callable[[Seen], bool]:
    return lambda seen: len(seen.frames) > frames or bool(seen.of(b"end"))


async def test_readers_that_leave_and_return_at_random_get_every_record_once(hub, open_logs):
    """Invariant 10."""
    chance = random.Random(20)
    total = 800

    async def write() -> None:
        sent = 0
        while sent < total:
            count = min(chance.randint(1, 30), total - sent)
            await append(open_logs, *(str(n) for n in range(sent, sent + count)))
            sent += count
        await stored(streams.close_topic, open_logs, "Healthy")

    async def read() -> Seen:
        seen = Seen()
        while not seen.of(b"end"):
            until = len(seen.frames) + chance.randint(1, 60)
            async with aclosing(follow(open_logs, after=max(seen.ids, default=0))) as frames:
                await read_until(frames, seen, left_or_over(until))
        return seen

    readers = [asyncio.ensure_future(read()) for _ in range(8)]
    await write()
    for seen in await asyncio.gather(*readers):
        assert seen.ids == list(range(1, total + 1))
        assert seen.texts == [str(n) for n in range(total)]
        assert seen.of(b"gap") == []


async def test_a_lost_nudge_costs_a_poll_and_no_record(hub, open_logs, monkeypatch):
    """Invariant 10."""
    async with aclosing(follow(open_logs)) as frames:
        assert await anext(frames) == b": connected\n\n"
        monkeypatch.setattr("apps.streams.services.nudges._switchboard.wake", lambda name: None)
        await append(open_logs, "one")
        seen = await read_until(frames, Seen(), lambda s: bool(s.ids))

    assert seen.texts == ["one"]


async def test_records_that_were_deleted_are_named_by_a_gap(hub, open_logs):
    """Invariant 10."""
    for text in ("one", "two", "three", "four"):
        await append(open_logs, text, text)
    await stored(StoredChunk.objects.filter(topic=open_logs, last__in=[2, 6, 8]).delete)
    await stored(streams.close_topic, open_logs, "Healthy")

    seen = await read_all(follow(open_logs))
    narrowed = await read_all(follow(open_logs, sources=["db"]))

    for got in (seen, narrowed):
        assert got.ids == [3, 4]
        assert got.of(b"gap") == [{"from": 1, "to": 2}, {"from": 5, "to": 8}]
        assert got.of(b"end") == [{"status": "Healthy", "lastId": 8}]


async def test_who_is_behind_when_a_topic_is_deleted_gets_a_gap_and_the_end(hub, open_logs):
    """Invariant 10."""
    for _ in range(3):
        await append(open_logs, *("x" * 100 for _ in range(900)))
    await stored(streams.close_topic, open_logs, "Canceled")

    async with aclosing(follow(open_logs)) as frames:
        seen = await read_until(frames, Seen(), lambda s: len(s.ids) > 0)
        await stored(streams.delete_topics, [open_logs])
        await read_until(frames, seen, lambda s: bool(s.of(b"end")))

    had = seen.ids[-1]
    assert seen.of(b"gap") == [{"from": had + 1, "to": 2700}]
    assert seen.of(b"end") == [{"status": "Canceled", "lastId": 2700}]


async def test_who_is_behind_when_what_a_topic_tells_of_is_gone_gets_a_gap(hub, open_logs):
    """Invariant 10: the records are still there, and nobody may read them any more."""
    for _ in range(3):
        await append(open_logs, *("x" * 100 for _ in range(900)))
    await stored(streams.close_topic, open_logs, "Canceled")
    answers: list[dict[str, object] | None] = [{"executionStatus": "Canceled"}]

    async with aclosing(follow(open_logs, envelope=lambda _topic: answers[-1])) as frames:
        seen = await read_until(frames, Seen(), lambda s: len(s.ids) > 0)
        answers.append(None)
        await read_until(frames, seen, lambda s: bool(s.of(b"end")))

    had = seen.ids[-1]
    assert seen.of(b"gap") == [{"from": had + 1, "to": 2700}]
    assert seen.of(b"end") == [{"status": "Canceled", "lastId": 2700}]


async def test_the_envelope_is_asked_once_for_all_followers_and_is_current(hub, open_logs):
    calls = []

    def current(topic: str) -> dict[str, object]:
        calls.append(topic)
        return {"executionStatus": "Booting" if len(calls) == 1 else "Healthy"}

    followers = [follow(open_logs, envelope=current) for _ in range(20)]
    for frames in followers:
        assert await anext(frames) == b": connected\n\n"
    parts = [asyncio.ensure_future(anext(frames)) for frames in followers]
    await asyncio.sleep(0.2)
    await append(open_logs, "one")
    bodies = await asyncio.gather(*parts)
    await append(open_logs, "two")
    bodies += await asyncio.gather(*(anext(frames) for frames in followers))
    for frames in followers:
        await frames.aclose()

    assert len(calls) == 2
    assert b'{"id":1,"executionStatus":"Booting",' in bodies[0]
    assert b'{"id":2,"executionStatus":"Healthy",' in bodies[-1]
    assert len({id(body) for body in bodies}) == 2


async def test_a_fault_in_one_stream_does_not_touch_the_others(hub, open_logs):
    """Invariant 37."""
    await stored(streams.open_topics, ["execution-logs:other"])

    def broken(topic: str) -> dict[str, object]:
        raise KeyError(topic)

    async with aclosing(follow(open_logs)) as whole:
        seen = await read_until(whole, Seen(), lambda s: len(s.frames) == 1)
        async with aclosing(follow("execution-logs:other", envelope=broken)) as frames:
            assert await anext(frames) == b": connected\n\n"
            failing = asyncio.ensure_future(anext(frames))
            await asyncio.sleep(0.1)
            await append("execution-logs:other", "one")
            with pytest.raises(KeyError):
                await failing
        await append(open_logs, "still here")
        await read_until(whole, seen, lambda s: bool(s.ids))

    assert seen.texts == ["still here"]


async def test_a_store_that_is_away_for_a_while_costs_time_and_no_record(
    hub, open_logs, monkeypatch
):
    """Invariant 10."""
    from django.db import OperationalError

    away = [True] * 3
    real = selectors.ends

    def ends(topics):
        if away:
            away.pop()
            raise OperationalError("server closed the connection")
        return real(topics)

    async with aclosing(follow(open_logs)) as frames:
        seen = await read_until(frames, Seen(), lambda s: len(s.frames) == 1)
        monkeypatch.setattr(selectors, "ends", ends)
        await append(open_logs, "one")
        await read_until(frames, seen, lambda s: bool(s.ids))

    assert away == []
    assert seen.texts == ["one"]


async def test_pings_come_while_nothing_else_does(open_logs, monkeypatch):
    monkeypatch.setattr(hub_module, "PING_S", 0.1)

    async with aclosing(follow(open_logs)) as frames:
        seen = await read_until(frames, Seen(), lambda s: len(s.frames) == 4)

    await hub_module.stop_hub()
    assert seen.frames == [b": connected", b": ping", b": ping", b": ping"]


async def busy_hub(seconds: float, others: str) -> None:
    async with aclosing(follow(others)) as frames:
        reading = asyncio.ensure_future(read_until(frames, Seen(), lambda _: False))
        for _ in range(int(seconds / 0.05)):
            streams.nudge(others)
            await asyncio.sleep(0.05)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


@pytest.mark.slow
async def test_after_idle_time_pings_do_not_catch_up(open_logs, monkeypatch):
    """Nobody follows for a while; then one ping a heartbeat, however busy the others are."""
    monkeypatch.setattr(hub_module, "PING_S", 0.5)
    others = "execution-logs:run-000000000002"
    await stored(streams.open_topics, [others])
    async with aclosing(follow(open_logs)) as frames:
        await anext(frames)
    await asyncio.sleep(2.5)

    busy = asyncio.ensure_future(busy_hub(2, others))
    seen = Seen()
    async with aclosing(follow(open_logs)) as frames:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.6):
                async for part in frames:
                    seen.take(part)
    await busy
    await hub_module.stop_hub()

    assert 1 <= seen.frames.count(b": ping") <= 3


@pytest.mark.slow
async def test_a_stream_that_sends_records_sends_no_pings(open_logs, monkeypatch):
    monkeypatch.setattr(hub_module, "PING_S", 1.5)
    seen = Seen()

    async with aclosing(follow(open_logs)) as frames:
        for number in range(1, 26):
            await append(open_logs, str(number))
            await read_until(frames, seen, lambda s: number in s.ids)  # noqa: B023
            await asyncio.sleep(0.1)

    await hub_module.stop_hub()
    assert b": ping" not in seen.frames


async def test_nothing_is_kept_when_the_last_follower_left(hub, open_logs):
    """Invariant 38."""
    async with aclosing(follow(open_logs)) as frames:
        await anext(frames)
        assert hub._feeds
    assert not hub._feeds


async def test_draining_ends_streams_without_an_end_frame(hub, open_logs):
    frames = follow(open_logs)
    assert await anext(frames) == b": connected\n\n"
    rest = asyncio.ensure_future(read_all(frames))
    await append(open_logs, "one")
    await asyncio.sleep(0.2)

    hub.drain()

    seen = await rest
    assert seen.texts == ["one"]
    assert seen.of(b"end") == []
    assert (await read_all(follow(open_logs))).frames == [b": connected"]
