"""The HTTP answer around a stream."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any

import pytest
from django.test import AsyncRequestFactory

from apps.streams import api as streams
from apps.streams.services import hub as hub_module
from apps.streams.services import responses
from apps.streams.services.responses import TooManyStreams
from tests.apps.streams.conftest import Seen, append, follow, read_until

pytestmark = pytest.mark.django_db(transaction=True)


async def answer(frames, **kwargs):
    request = AsyncRequestFactory().get("/api/v1/executions/run-1/logs")
    return await streams.sse_response(request, frames, **({"user_key": "ada"} | kwargs))


async def test_an_answer_has_the_headers_of_a_stream_and_its_frames(hub, open_logs):
    await append(open_logs, "one")
    response = await answer(follow(open_logs))

    async with aclosing(aiter(response)) as frames:
        seen = await read_until(frames, Seen(), lambda s: bool(s.ids))

    assert response["Content-Type"] == "text/event-stream"
    assert response["Cache-Control"] == "no-cache"
    assert response["X-Accel-Buffering"] == "no"
    assert seen.texts == ["one"]
    assert responses.open_streams.count() == 0


async def test_one_user_has_so_many_streams_and_no_more(hub, open_logs, settings):
    settings.STREAM_MAX_PER_USER = 2
    first, second = await answer(follow(open_logs)), await answer(follow(open_logs))

    with pytest.raises(TooManyStreams) as caught:
        await answer(follow(open_logs))
    assert caught.value.problem_code == "too_many_streams"
    other = await answer(follow(open_logs), user_key="bob")

    first.close()
    first.close()
    again = await answer(follow(open_logs))
    with pytest.raises(TooManyStreams):
        await answer(follow(open_logs))
    del second  # never sent, never closed
    (await answer(follow(open_logs))).close()
    for response in (other, again):
        response.close()
    assert responses.open_streams.count() == 0


def test_a_place_may_be_given_back_while_another_is_taken():
    """As the garbage collector does, on the very thread that takes one."""
    places = responses.OpenStreams()
    release = places.open("ada", "logs")
    other = places.open("ada", "logs")

    def collected_meanwhile() -> None:
        with places._lock:
            release()

    thread = threading.Thread(target=collected_meanwhile, daemon=True)
    thread.start()
    thread.join(5)

    assert not thread.is_alive()
    assert places.count() == 1
    other()
    assert places.count() == 0


async def test_a_dead_credential_closes_the_stream_without_an_end(hub, open_logs, monkeypatch):
    """Invariant 12."""
    monkeypatch.setattr(responses, "RECHECK_S", 0.1)
    monkeypatch.setattr(responses, "SHARED_S", 0.0)
    holds = [True, True, False]
    response = await answer(follow(open_logs), recheck=lambda: holds.pop(0))
    seen = Seen()

    async with aclosing(aiter(response)) as frames:
        for number in range(1, 10):
            await append(open_logs, str(number))
            await asyncio.sleep(0.15)
            try:
                await read_until(frames, seen, lambda s: number in s.ids)  # noqa: B023
            except StopAsyncIteration:
                break

    assert holds == []
    assert 1 <= len(seen.ids) < 9
    assert seen.of(b"end") == []


def test_a_recheck_is_never_later_than_thirty_seconds_after_the_last():
    """Invariants 12 and 18."""
    assert responses.RECHECK_S + hub_module.PING_S + responses.SHARED_S < 30


async def test_streams_of_one_credential_share_the_answer(hub):
    asked = []

    def recheck(who: str) -> bool:
        asked.append(who)
        return who != "mallory"

    answers = await asyncio.gather(
        *(responses.Rechecks().holds(hub, partial(recheck, who)) for who in ("ada", "mallory")),
        *(responses.rechecks.holds(hub, partial(recheck, "bob")) for _ in range(50)),
    )

    assert answers == [True, False] + [True] * 50
    assert sorted(asked) == ["ada", "bob", "mallory"]


async def test_draining_waits_until_the_streams_have_ended(hub, open_logs):
    response, seen = await answer(follow(open_logs)), Seen()

    async def read() -> None:
        async with aclosing(aiter(response)) as frames:
            async for part in frames:
                seen.take(part)

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0.1)
    await responses.StreamsPart().drain()

    assert responses.open_streams.count() == 0
    await reading
    assert seen.frames == [b": connected"]


@pytest.mark.slow
async def test_a_snapshot_stream_sends_the_newest_first_and_skips_what_is_overtaken(hub):
    state = {"n": 0}
    taken = []

    def take() -> bytes:
        taken.append(state["n"])
        return json.dumps(state).encode()

    async with aclosing(streams.snapshot_stream("overview", scope="w1", take=take)) as frames:
        assert await anext(frames) == b": connected\n\n"
        first = await anext(frames)
        began = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() - began < 1:
            state["n"] += 1
            streams.nudge("overview")
            await asyncio.sleep(0.005)
        versions: list[Any] = []
        async with asyncio.timeout(5):
            while not versions or versions[-1][1] != state["n"]:
                versions.append(parsed(await anext(frames)))

    assert parsed(first)[1] == 0
    ids = [parsed(first)[0], *(version for version, _ in versions)]
    assert ids == sorted(set(ids))
    assert len(taken) <= 8


async def test_a_snapshot_stream_ends_when_its_subject_has_ended(hub):
    over = False

    def take() -> bytes:
        if over:
            raise streams.ViewOver("Healthy")
        return b'{"n":1}'

    async with aclosing(
        streams.snapshot_stream("probes:r", scope="", take=take, poll_s=60)
    ) as frames:
        seen = [await anext(frames), await anext(frames)]
        over = True
        streams.nudge("probes:r")
        async with asyncio.timeout(5):
            seen += [frame async for frame in frames]

    last_id = parsed(seen[1])[0]
    assert seen[2:] == [b'event: end\ndata: {"status":"Healthy","lastId":%d}\n\n' % last_id]


def parsed(frame: bytes) -> tuple[int, int]:
    head, _, data = frame.partition(b"\ndata: ")
    return int(head.removeprefix(b"id: ")), json.loads(data)["n"]


async def test_a_scope_is_taken_once_for_all_who_watch_it_and_unchanged_is_not_sent(hub):
    taken = []

    def take() -> bytes:
        taken.append(1)
        return b"{}"

    watchers = [streams.snapshot_stream("overview", scope="w1", take=take) for _ in range(5)]
    for frames in watchers:
        assert await anext(frames) == b": connected\n\n"
    first = [await anext(frames) for frames in watchers]
    waiting = asyncio.ensure_future(anext(watchers[0]))
    streams.nudge("overview")
    await asyncio.sleep(0.5)

    assert len(set(first)) == 1
    assert len(taken) <= 3
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    for frames in watchers:
        await frames.aclose()


async def test_an_answer_whose_content_was_replaced_sends_that_instead(hub, open_logs):
    async def nothing() -> AsyncGenerator[bytes]:
        none: tuple[bytes, ...] = ()
        for frame in none:
            yield frame

    response = await answer(follow(open_logs))
    response.streaming_content = nothing()

    async with aclosing(aiter(response)) as parts:
        assert [part async for part in parts] == []
    response.close()
    assert responses.open_streams.count() == 0
