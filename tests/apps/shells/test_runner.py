"""The runner's loop over a runtime in memory (reference: control-plane 11.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from apps.executions.models import Execution
from apps.shells import api
from apps.shells.domain.records import TerminalSize
from apps.shells.models import ShellSession
from apps.shells.services import sessions
from apps.shells.services.clients import keep_attached, type_into
from apps.shells.services.sessions import ShellWish
from apps.streams.api import last_ids, read
from apps.workers import served_shell
from apps.workers import shells as shell_loop
from apps.workers.shells import ShellLoop
from kernel import clock
from tests.apps.executions_rest.conftest import Caller
from tests.apps.shells.conftest import (
    RunnerOfShells,
    await_shell,
    await_state,
    await_text,
    keep_run,
    principal_of,
    shown,
)
from tests.support.fake_shells import RuntimeWithShells
from tests.support.processes import until
from worker.domain.runtime import RuntimeUnavailable

Start = Callable[..., RunnerOfShells]
pytestmark = pytest.mark.django_db(transaction=True)


def open_shell(caller: Caller, run: Execution, step: str = "seed", **more: Any) -> str:
    wish = ShellWish(step_id=step, **more)
    return sessions.open_shell(principal_of(caller), run.run_id, wish, address="here")["shellId"]


def type_text(shell_id: str, text: bytes) -> None:
    type_into(ShellSession.objects.get(pk=shell_id).pk, [text])


@pytest.fixture
def run(ada: Caller, runtime: RuntimeWithShells) -> Execution:
    run = keep_run(ada)
    runtime.give_unit(run.run_id, "seed")
    return run


def test_what_is_typed_reaches_the_program_and_its_output_comes_back(
    ada: Caller, run: Execution, runtime: RuntimeWithShells, start_runner: Start
):
    runtime.notice = "a copy of the ended step"
    start_runner(runtime)
    shell_id = open_shell(ada, run, command=("sh",), columns=100, rows=30)

    opened = await_state(shell_id, "open")
    type_text(shell_id, b"hello\rsize\r")
    await_text(shell_id, b"100 x 30")
    type_into(opened.pk, [TerminalSize(columns=132, rows=50), b"size\r", b"exit 3\r"])
    ended = await_state(shell_id, "ended")

    assert opened.notice == "a copy of the ended step"
    assert b"said: hello" in shown(shell_id)
    assert b"132 x 50" in shown(shell_id)
    assert (ended.exit_code, ended.end_code) == (3, "exited")
    assert ended.end_detail == "the program ended with 3"
    shell = runtime.opened[shell_id]
    assert shell.request.command == ("sh",)
    assert shell.closed
    assert not last_ids([f"shell:{shell_id}:input"])  # it may hold passwords


def test_the_newest_attempt_of_the_step_is_entered(
    ada: Caller, run: Execution, runtime: RuntimeWithShells, start_runner: Start
):
    runtime.give_unit(run.run_id, "db", attempt=7)
    newest = runtime.give_unit(run.run_id, "seed", attempt=12)
    runtime.give_unit(run.run_id, "seed", attempt=9)
    start_runner(runtime)

    shell_id = open_shell(ada, run)

    assert await_shell(runtime, shell_id).unit == newest


@pytest.mark.parametrize("case", ["no unit", "refused", "away"])
def test_what_cannot_be_opened_says_why(
    ada: Caller, runtime: RuntimeWithShells, start_runner: Start, case: str
):
    run = keep_run(ada)
    start_runner(runtime)
    until(lambda: bool(runtime.ended), within_s=20, what="the runner has begun")
    if case == "refused":
        runtime.refusal = "the image has no shell; name a program"
    if case != "no unit":
        runtime.give_unit(run.run_id, "seed")
    runtime.away = case == "away"

    ended = await_state(open_shell(ada, run), "ended")

    words = {"no unit": "nothing left of seed", "refused": "has no shell", "away": "is away"}
    assert ended.end_code == "not_opened"
    assert words[case] in ended.end_detail or case == "away"


def test_escape_sequences_of_a_step_are_dropped_before_they_are_stored(
    ada: Caller, run: Execution, runtime: RuntimeWithShells, start_runner: Start
):
    runner = start_runner(runtime)
    shell_id = open_shell(ada, run)
    shell = await_shell(runtime, shell_id)
    runner.do(lambda: shell.print(b"\x1b]52;c;cm0g"))
    runner.do(lambda: shell.print(b"LXJm\x07\x1b[31mred\x1b[6n\xe2\x82"))
    runner.do(lambda: shell.print(b"\xac done"))

    await_text(shell_id, b" done")

    assert shown(shell_id).endswith(b"\x1b[31mred\xe2\x82\xac done")
    assert b"52;c" not in shown(shell_id)


def test_output_that_nobody_reads_slows_the_program_down(
    ada: Caller, run: Execution, runtime: RuntimeWithShells, start_runner: Start
):
    start_runner(runtime)
    shell_id = open_shell(ada, run)
    shell = await_shell(runtime, shell_id)
    type_text(shell_id, b"flood 5000000\r")
    until(lambda: len(shown(shell_id)) > 2**20, within_s=30, what="the shell writes 1 MiB")

    before = shell.read_bytes
    assert before < 2**20 + 3 * 2**16
    while shell.read_bytes < 5_000_000:
        topic = f"shell:{shell_id}:output"
        keep_attached(ShellSession.objects.get().pk, read_id=last_ids([topic])[topic])
    until(lambda: not shell._output, within_s=20, what="everything is read")
    first = read(f"shell:{shell_id}:output", after=0, limit=1)
    assert first  # within 4 MiB plus a step of 1 MiB nothing is forgotten


def test_old_output_that_a_client_got_is_forgotten(
    ada: Caller, run: Execution, runtime: RuntimeWithShells, start_runner: Start, monkeypatch: Any
):
    monkeypatch.setattr(served_shell, "OUTPUT_KEPT_BYTES", 200_000)
    monkeypatch.setattr(served_shell, "FORGET_STEP_BYTES", 100_000)
    start_runner(runtime)
    shell_id = open_shell(ada, run)
    shell = await_shell(runtime, shell_id)
    type_text(shell_id, b"flood 900000\r")
    until(lambda: shell.read_bytes > 900_000, within_s=30, what="the program has written")
    topic = f"shell:{shell_id}:output"
    keep_attached(ShellSession.objects.get().pk, read_id=last_ids([topic])[topic])

    until(lambda: len(shown(shell_id)) < 400_000, within_s=20, what="old output is forgotten")
    assert len(shown(shell_id)) >= 150_000


def test_a_shell_that_somebody_ends_is_closed(
    ada: Caller, run: Execution, runtime: RuntimeWithShells, start_runner: Start
):
    start_runner(runtime)
    shell_id = open_shell(ada, run)
    shell = await_shell(runtime, shell_id)
    await_state(shell_id, "open")

    ada.delete(f"executions/{run.run_id}/shells/{shell_id}")

    until(lambda: shell.closed, within_s=20, what="the program is ended")
    row = ShellSession.objects.get()
    assert (row.end_code, row.end_detail) == ("ended_by_user", "someone ended the shell")


def test_nobody_comes_back(
    ada: Caller, run: Execution, runtime: RuntimeWithShells, start_runner: Start, monkeypatch: Any
):
    monkeypatch.setattr(served_shell, "CLIENT_BACK_WITHIN_S", 0.5)
    start_runner(runtime)
    shell_id = open_shell(ada, run)
    for _ in range(15):  # a client that is there
        keep_attached(ShellSession.objects.get().pk, read_id=0)
        assert ShellSession.objects.get().state != "ended"

    ended = await_state(shell_id, "ended")

    assert ended.end_code == "client_left"
    assert runtime.opened[shell_id].closed


def test_nothing_happens_for_too_long(
    ada: Caller, run: Execution, runtime: RuntimeWithShells, start_runner: Start, settings: Any
):
    settings.SHELL_IDLE_S = 0.5
    start_runner(runtime)

    ended = await_state(open_shell(ada, run), "ended")

    assert ended.end_code == "idle"


def test_the_environment_is_no_longer_kept(
    ada: Caller, run: Execution, runtime: RuntimeWithShells, start_runner: Start
):
    start_runner(runtime)
    shell_id = open_shell(ada, run)
    await_state(shell_id, "open")

    Execution.objects.filter(pk=run.pk).update(keep_ended_at=clock.now())

    assert await_state(shell_id, "ended").end_code == "not_kept"
    assert runtime.opened[shell_id].closed


def test_the_runtime_goes_away(
    ada: Caller, run: Execution, runtime: RuntimeWithShells, start_runner: Start
):
    runner = start_runner(runtime)
    shell_id = open_shell(ada, run)
    shell = await_shell(runtime, shell_id)
    runner.do(lambda: shell.break_off(RuntimeUnavailable("no answer for 30 s")))

    ended = await_state(shell_id, "ended")

    assert ended.end_code == "unit_lost"
    assert ended.end_detail.endswith(": no answer for 30 s")


def test_a_container_that_went_with_its_environment_is_not_lost(
    ada: Caller, run: Execution, runtime: RuntimeWithShells, start_runner: Start
):
    """Its runtime says so before the runner asks the run again."""
    runner = start_runner(runtime)
    shell_id = open_shell(ada, run)
    shell = await_shell(runtime, shell_id)
    await_state(shell_id, "open")

    Execution.objects.filter(pk=run.pk).update(keep_ended_at=clock.now())
    runner.do(lambda: shell.break_off(RuntimeUnavailable("no such container")))

    assert await_state(shell_id, "ended").end_code == "not_kept"


def test_the_runner_that_comes_back_ends_what_the_last_one_had_open(
    ada: Caller, run: Execution, runtime: RuntimeWithShells, start_runner: Start
):
    """Invariant 15."""
    first = start_runner(runtime)
    shell_id = open_shell(ada, run)
    await_state(shell_id, "open")
    first.crash()
    assert ShellSession.objects.get().state == "open"

    second = RuntimeWithShells()
    start_runner(second)

    ended = await_state(shell_id, "ended")
    assert (ended.end_code, ended.end_detail) == ("runner_restarted", "the runner restarted")
    until(lambda: second.ended, within_s=20, what="the runtime is told")
    assert second.ended[0].orchestrator_id == "runner:a"


def test_a_runner_that_stops_ends_its_shells(
    ada: Caller, run: Execution, runtime: RuntimeWithShells, start_runner: Start
):
    runner = start_runner(runtime)
    shell_id = open_shell(ada, run)
    await_state(shell_id, "open")

    runner.stop()

    assert ShellSession.objects.get().end_code == "runner_restarted"
    assert runtime.opened[shell_id].closed


def test_a_session_whose_runner_is_gone_ends_when_its_client_looks(
    ada: Caller, run: Execution, runtime: RuntimeWithShells, start_runner: Start
):
    runner = start_runner(runtime)
    shell_id = open_shell(ada, run)
    await_state(shell_id, "open")
    runner.crash()
    pk = ShellSession.objects.get().pk
    assert keep_attached(pk, read_id=0)

    ShellSession.objects.update(lease_expires_at=clock.now() - timedelta(seconds=1))

    assert not keep_attached(pk, read_id=0)
    assert ShellSession.objects.get().end_code == "runner_gone"


def test_two_runners_of_one_supervisor_never_take_a_session_twice(ada: Caller, run: Execution):
    opened = [open_shell(ada, run) for _ in range(6)]
    holders: list[str] = []
    for name in ("one", "two"):
        holders += [str(held.pk) for held in api.take_sessions(["runner:a"], name)]

    assert sorted(holders) == sorted(opened)
    assert not api.take_sessions(["runner:a"], "three")


@pytest.mark.parametrize(("is_nudged", "setting"), [(True, "NUDGED_POLL_S"), (False, "POLL_S")])
async def test_an_idle_runner_that_is_nudged_asks_the_store_less_often(
    monkeypatch: pytest.MonkeyPatch, is_nudged: bool, setting: str
):
    pauses = []

    async def pause(_woken: asyncio.Event, within_s: float) -> None:
        pauses.append(within_s)
        raise asyncio.CancelledError

    monkeypatch.setattr(shell_loop, "pause", pause)
    monkeypatch.setattr(shell_loop, "has_nudges_of_others", lambda: is_nudged)

    with pytest.raises(asyncio.CancelledError):
        await ShellLoop(lambda: ()).keep_serving()

    assert pauses == [getattr(shell_loop, setting)]
    assert shell_loop.NUDGED_POLL_S == 2.0
