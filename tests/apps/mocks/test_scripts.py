"""Scripts of dispatchers: what they see and give, and what hostile ones cannot do."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psutil
import pytest

from mocks.model.ports import ScriptFailed
from mocks.scripts import pool as pools
from mocks.scripts.pool import ScriptPool
from mocks.scripts.process import Limits
from mocks.scripts.slots import Slots
from tests.support.processes import ROOT, until

REQUEST = {
    "method": "POST", "path": "/orders/7", "params": {"id": "7"}, "query": {"q": "x"},
    "headers": {"x-tenant": "acme"}, "body": {"items": [1, 2], "note": "hi"}, "rawBody": "raw",
}  # fmt: skip
# Patient with a busy host: wall time is what the tests of the limit itself shorten.
LIMITS = Limits(cpu_s=0.05, wall_s=5.0, memory=pools.MEMORY, instructions=pools.INSTRUCTIONS)


@pytest.fixture
def scripts() -> Iterator[ScriptPool]:
    pool = ScriptPool(limits=LIMITS)
    yield pool
    pool.close()


async def ran(pool: ScriptPool, source: str, **options: Any) -> str | None:
    given: dict[str, Any] = {
        "defines_function": "def dispatch" in source, "request": REQUEST,
        "state": {"status": "paid", "n": "3"}, **options,
    }  # fmt: skip
    return await pool.run(source, **given)


async def failure(pool: ScriptPool, source: str, **options: Any) -> str:
    with pytest.raises(ScriptFailed) as failed:
        await ran(pool, source, **options)
    return failed.value.detail


NAMES = {
    '"paid" if state.get("status") == "paid" else "new"': "paid",
    "request.method": "POST",
    "request.path": "/orders/7",
    'request.params["id"]': "7",
    'request.query.get("q")': "x",
    'request.headers.get("x-tenant")': "acme",
    'request.body["note"]': "hi",
    'str(len(request.body["items"]))': "2",
    "request.rawBody": "raw",
    'state.get("missing")': None,
    "None": None,
    '"a" # with a comment': "a",
    '"a"\n    if state["n"] == "3"\n  else "b"': "a",
    '[name for name in ["x", "y"] if name != "x"][0]': "y",
    "def dispatch(request, state):\n    return state['status'] + '-' + state['n']": "paid-3",
    "LIMIT = 2\ndef over(n):\n    return int(n) > LIMIT\n"
    "def dispatch(request, state):\n    return 'over' if over(state['n']) else None\n": "over",
}


async def test_scripts_see_the_request_and_the_state(scripts: ScriptPool):
    for source, name in NAMES.items():
        assert await ran(scripts, source) == name, source


async def test_text_forms_and_nothing_are_bodies_too(scripts: ScriptPool):
    for body in ("text", "", [1], None, 7, True):
        source = 'type(request.body) + " " + str(request.body)'
        assert await ran(scripts, source, request={**REQUEST, "body": body}) is not None


FAILURES = {
    "1 // 0": "(line 1, column 1)",
    '"a" if\n  nope else "b"': "(line 2, column 3)",
    'request.body["missing"]': "missing",
    "request.missing": "missing",
    "7": "not int",
    "[1]": "not list",
    "request": "not struct",
    "len": "not function",
    '"a" * 2000': "not a long string",
    'fail("because")': "because (line 1, column 1)",
    'load("@x//:y", "z")': "line",
    "1 +": "",
    'open("/etc/passwd")': "open",
    'print("x")': "print",
    "def dispatch(request, state):\n    x = 1\n    return nope": "(line 3, column 12)",
    "def dispatch(request, state):\n    return state['none']": "(line 2, column 12)",
    "def dispatch():\n    return 'a'": "",
}


async def test_a_failure_says_what_and_where(scripts: ScriptPool):
    for source, words in FAILURES.items():
        assert words in await failure(scripts, source), source


LOOPS = (
    "[x for x in range(1000000000)]",
    "def dispatch(request, state):\n    for _ in range(1000000000):\n        pass",
    "def dispatch(request, state):\n    return dispatch(request, state)",
    "X = [x for x in range(1000000000)]\ndef dispatch(request, state):\n    return 'a'",
    "def a(n):\n    return a(n + 1) + a(n + 1)\ndef dispatch(request, state):\n    return a(0)",
)  # fmt: skip


async def test_a_loop_ends_after_its_instructions_and_its_process_stays(scripts: ScriptPool):
    await ran(scripts, '"a"')
    (process,) = scripts._idle
    for source in LOOPS:
        await failure(scripts, source)
    assert [each.pid for each in scripts._idle] == [process.pid]


BOMBS = (
    '"a" * 1000000000',
    "[0] * 1000000000",
    'str(["a" * 1000000] * 1000)',
    "def dispatch(request, state):\n    x = 'a'\n    for _ in range(40):\n        x += x\n",
    "sorted(range(100000000))",
    "list(range(2147483647))[0]",
    'len(("a" * 1000000).replace("a", "b" * 1000))',
    "1 << 100000000000",
)  # fmt: skip


@pytest.mark.slow
async def test_what_takes_memory_or_time_at_once_ends_its_process_and_no_other(
    scripts: ScriptPool,
):
    for source in BOMBS:
        begun = processor_time()
        await failure(scripts, source)
        assert processor_time() - begun < 1, source
        assert await ran(scripts, '"fine"') == "fine"


def processor_time() -> float:
    """Return what this process has used; its children are limited by themselves."""
    times = psutil.Process().cpu_times()
    return times.user + times.system


@pytest.mark.slow
async def test_others_are_answered_while_hostile_scripts_wait_for_each_other(scripts: ScriptPool):
    """One at a time after its first offence: a process is left for the scripts of others."""
    bomb = "sorted(range(100000000))"
    await failure(scripts, bomb)
    hostile = [asyncio.create_task(failure(scripts, bomb)) for _ in range(8)]
    await asyncio.sleep(0)
    answered = 0
    while not all(task.done() for task in hostile):
        assert await ran(scripts, f'"fine {answered % 3}"') == f"fine {answered % 3}"
        answered += 1
    assert answered >= 8
    assert all(await asyncio.gather(*hostile))


@pytest.mark.slow
async def test_the_loop_runs_on_while_scripts_are_killed(scripts: ScriptPool):
    bombs = [asyncio.create_task(failure(scripts, source)) for source in BOMBS]
    turns = 0
    while not all(task.done() for task in bombs):
        await asyncio.sleep(0.001)
        turns += 1
    assert turns > 20


async def test_too_many_slow_calls_are_refused(scripts: ScriptPool):
    source = "[x for x in range(100000)] and 'a'"
    scripts._mark_slow(source)
    calls = [asyncio.create_task(ran(scripts, source)) for _ in range(pools.SLOW_WAITING + 10)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    refused = [each for each in results if isinstance(each, ScriptFailed)]
    assert sum("too many calls" in each.detail for each in refused) == 9


async def test_calls_at_once_share_the_processes(scripts: ScriptPool):
    names = await asyncio.gather(
        *(ran(scripts, "request.path", request={**REQUEST, "path": f"/{n}"}) for n in range(50))
    )
    assert names == [f"/{n}" for n in range(50)]
    assert len(scripts._idle) <= pools.PROCESSES


async def test_a_request_too_large_for_scripts_is_refused_unless_its_body_is_not_read(
    scripts: ScriptPool,
):
    request = {**REQUEST, "body": "x" * 1_000_000, "rawBody": "x" * 1_000_000}
    assert await ran(scripts, "request.method", request=request) == "POST"
    assert "256 KiB" in await failure(scripts, "request.body", request=request)
    assert "256 KiB" in await failure(scripts, "request.rawBody", request=request)
    assert "too long" in await failure(scripts, '"a"' + " " * 100_000)


async def test_deep_bodies_fail_cleanly(scripts: ScriptPool):
    for depth in (500, 900, 20_000):
        deep: Any = "x"
        for _ in range(depth):
            deep = [deep]
        with contextlib.suppress(ScriptFailed):
            assert await ran(scripts, "type(request.body)", request={**REQUEST, "body": deep})
    assert await ran(scripts, '"fine"') == "fine"


async def test_a_process_that_was_killed_from_outside_is_replaced(scripts: ScriptPool):
    await ran(scripts, '"a"')
    psutil.Process(scripts._idle[0].pid).kill()
    scripts._idle[0]._process.wait()
    assert await ran(scripts, '"a"') == "a"


async def test_processes_that_grew_are_replaced(scripts: ScriptPool):
    await ran(scripts, '"a"')
    (process,) = scripts._idle
    grows = 'str(len("a" * 100000000))'
    with contextlib.suppress(ScriptFailed):  # on a slow host, its time is over before
        assert await ran(scripts, grows) == "100000000"
    assert await ran(scripts, '"a"') == "a"
    assert process.pid not in [each.pid for each in scripts._idle]


async def test_a_cancelled_call_costs_its_process_and_not_its_slot():
    scripts = ScriptPool(limits=dataclasses.replace(LIMITS, cpu_s=60.0, wall_s=60.0))
    await ran(scripts, '"a"')
    for _ in range(pools.PROCESSES + 1):
        call = asyncio.create_task(ran(scripts, "max(range(1000000000))"))
        await asyncio.sleep(0.001)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert await ran(scripts, '"a"') == "a"
    scripts.close()


async def test_nothing_starts_before_the_first_call_and_everything_ends_with_the_pool():
    pool = ScriptPool(limits=LIMITS)
    children = set(psutil.Process().children())
    assert not pool._idle
    await asyncio.gather(*(ran(pool, '"a"') for _ in range(8)))
    started = set(psutil.Process().children()) - children
    assert 1 <= len(started) <= pools.PROCESSES
    pool.close()
    assert not [each for each in started if each.is_running()]
    with pytest.raises(ScriptFailed):
        await ran(pool, '"a"')
    pool.open()
    assert await ran(pool, '"a"') == "a"
    pool.close()


STARTS_ONE = """
import asyncio, time
from mocks.scripts.pool import ScriptPool
pool = ScriptPool()
asyncio.run(pool.run('"a"', defines_function=False, request={}, state={}))
print(pool._idle[0].pid, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_processes_end_with_a_server_that_is_killed():
    command = [sys.executable, "-c", STARTS_ONE]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        child = psutil.Process(int(server.stdout.readline()))
        assert child.is_running()
        server.kill()
    until(lambda: not child.is_running(), within_s=30, what="the script process ends")


async def test_a_pool_that_closes_ends_the_calls_under_way():
    pool = ScriptPool(limits=LIMITS)
    await ran(pool, '"a"')
    call = asyncio.create_task(failure(pool, "sorted(range(100000000))"))
    await asyncio.sleep(0)
    assert pool._busy
    await asyncio.to_thread(pool.close)
    assert await call
    assert not pool._busy


def test_several_event_loops_share_a_pool(scripts: ScriptPool):
    for _ in range(3):
        assert asyncio.run(ran(scripts, "request.method")) == "POST"
    assert len(scripts._idle) == 1


async def test_the_wall_limit_holds_where_the_process_gets_no_processor():
    pool = ScriptPool(limits=Limits(cpu_s=0.05, wall_s=0.2, memory=pools.MEMORY, instructions=1000))
    try:
        await ran(pool, '"a"')
        psutil.Process(pool._idle[0].pid).suspend()
        begun = time.monotonic()
        await failure(pool, '"a"')
        assert time.monotonic() - begun >= 0.2
        assert await ran(pool, '"a"') == "a"
    finally:
        pool.close()


@contextlib.asynccontextmanager
async def held(slots: Slots) -> AsyncIterator[None]:
    assert await slots.acquire()
    yield
    slots.release()


async def test_slots_are_given_in_turn_and_survive_those_who_leave():
    slots, order = Slots(1, 3), list[int]()

    async def take(number: int) -> None:
        async with held(slots):
            order.append(number)

    async with held(slots):
        waiting = [asyncio.create_task(take(number)) for number in range(3)]
        await asyncio.sleep(0)
        assert not await slots.acquire()
        waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert order == [0, 2]
    async with held(slots):
        pass


async def test_a_slot_given_to_who_leaves_at_that_moment_is_given_on():
    slots = Slots(1, 2)
    assert await slots.acquire()
    leaves = asyncio.create_task(slots.acquire())
    stays = asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)
    slots.release()
    leaves.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaves
    assert await stays
