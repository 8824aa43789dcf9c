"""What every runtime promises (worker/domain/runtime.py)."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.contracts.runtime.conftest import Driver
from tests.support import steps
from tests.support.fake_runtime import FakeRuntime
from worker.domain import ownership
from worker.domain.runtime import Collected, PathRefused, StartFailed, UnitLost, UnitState

ALTERNATING = tuple(f"{('out', 'err')[number % 2]}:{number}" for number in range(200))


async def test_output_is_complete_and_tells_stdout_from_stderr(driver: Driver) -> None:
    unit = await driver.start("out:one", "err:two", "out:three")

    records = await driver.records(unit)

    by_stream = {(record.stream, record.data) for record in records}
    stderr = "stderr" if driver.runtime.separates_streams else "stdout"
    assert by_stream == {("stdout", b"one\n"), (stderr, b"two\n"), ("stdout", b"three\n")}
    assert [record.position for record in records] == [1, 2, 3]
    assert all(record.time and record.time.endswith("Z") for record in records)


async def test_each_stream_keeps_its_order_beside_the_other(driver: Driver) -> None:
    """Between the two no order is promised: each is a pipe (reference: control-plane 14.3)."""
    unit = await driver.start(*ALTERNATING)

    records = await driver.records(unit)

    numbers = [int(record.data) for record in records]
    written = {"stdout": list(range(0, 200, 2)), "stderr": list(range(1, 200, 2))}
    assert [each for each in numbers if each % 2 == 0] == written["stdout"]
    assert [each for each in numbers if each % 2] == written["stderr"]
    if driver.runtime.separates_streams:
        assert all(int(each.data) in written[each.stream] for each in records)


async def test_a_step_that_writes_both_to_one_pipe_is_read_in_the_order_it_wrote(
    driver: Driver,
) -> None:
    unit = await driver.start("sh:exec 2>&1", *ALTERNATING)

    records = await driver.records(unit)

    assert [int(record.data) for record in records] == list(range(200))


async def test_output_goes_on_behind_the_records_taken(driver: Driver) -> None:
    unit = await driver.start(*(f"out:line {number}" for number in range(20)))
    everything = await driver.records(unit)

    rest = await driver.records(unit, after=13)

    assert rest == everything[13:]


async def test_the_exit_code_is_the_programs(driver: Driver) -> None:
    unit = await driver.start("exit:7")

    ended = await driver.runtime.wait(unit)

    assert (ended.exit_code, ended.oom_killed) == (7, False)


async def test_output_is_followed_while_the_unit_runs(driver: Driver) -> None:
    unit = await driver.start("out:early", "serve")

    async with asyncio.timeout(10):
        first = await anext(aiter(driver.runtime.output(unit)))

    assert [record.data for record in first] == [b"early\n"]


async def test_the_same_launch_again_is_the_same_unit(driver: Driver) -> None:
    launch = driver.launch("out:once")
    first = await driver.runtime.start(launch)
    await driver.runtime.wait(first)

    second = await driver.again().start(launch)

    assert second.id == first.id
    assert second.state is UnitState.ENDED
    assert await driver.texts(second) == ["once\n"]


async def test_a_new_attempt_removes_the_earlier_one(driver: Driver) -> None:
    first = await driver.start("serve")

    second = await driver.start("out:second", attempt=2)

    assert second.id != first.id
    assert [unit.id for unit in await driver.runtime.find(steps.owner())] == [second.id]


async def test_stop_ends_a_service(driver: Driver) -> None:
    unit = await driver.start("serve", node={"kind": "service"})

    async with asyncio.timeout(8):
        await driver.runtime.stop(unit)
        ended = await driver.runtime.wait(unit)

    assert ended.exit_code != 0


async def test_a_successor_finds_units_running_and_ended(driver: Driver) -> None:
    ended = await driver.start("out:done", node_id="ended")
    running = await driver.start("serve", node_id="running")
    await driver.runtime.wait(ended)

    found = {unit.id: unit for unit in await driver.again().find(steps.owner())}

    assert found[ended.id].state is UnitState.ENDED
    assert found[running.id].state is UnitState.RUNNING
    assert found[running.id].labels["partita.job_id"] == f"job_{driver.run_id}-running"
    assert found[running.id].started_at is not None


async def test_a_successor_reads_the_same_records(driver: Driver) -> None:
    unit = await driver.start(*(f"out:line {number}" for number in range(50)), "err:end")
    everything = await driver.records(unit)

    again = driver.again()
    records = [each async for batch in again.output(unit, after=0) for each in batch]

    assert records == everything


async def test_other_supervisors_units_are_not_found(driver: Driver) -> None:
    await driver.start("serve")

    assert await driver.runtime.find(steps.owner("runner:elsewhere")) == []


async def test_the_shared_directory_is_filled_once_a_run(driver: Driver) -> None:
    first = await driver.start("share:tasks/hello.sh=changed", node_id="a")
    await driver.runtime.wait(first)

    second = await driver.start("out:b", node_id="b")
    await driver.runtime.wait(second)

    found = await driver.runtime.collect(second, "/partita/workspace/tasks/hello.sh")
    assert [file.body for file in found.files] == [b"changed"]


async def test_a_change_is_found_whatever_the_time_of_its_file(driver: Driver) -> None:
    if isinstance(driver.runtime, FakeRuntime):
        pytest.skip("the fake runs no programs")
    path = '"$PARTITA_WORKSPACE_DIR/tasks/hello.sh"'
    first = await driver.start(f"sh:printf changed >{path}; touch -d @0 {path}", node_id="a")
    await driver.runtime.wait(first)

    second = await driver.start("out:b", node_id="b")
    await driver.runtime.wait(second)

    found = await driver.runtime.collect(second, "/partita/workspace/tasks/hello.sh")
    assert [file.body for file in found.files] == [b"changed"]


async def test_steps_at_once_that_write_one_name_have_a_file_each(driver: Driver) -> None:
    """Each starts in a directory of its own: the first thing that users of pytest or Jest write."""
    red = await driver.start("drop:report.xml=red", "sleep:1", node_id="red")
    green = await driver.start("sleep:0.5", "drop:report.xml=green", node_id="green")
    await asyncio.gather(driver.runtime.wait(red), driver.runtime.wait(green))

    of_red = await driver.runtime.collect(red, "report.xml")
    of_green = await driver.runtime.collect(green, "*.xml")

    assert [(file.path, file.body) for file in of_red.files] == [("report.xml", b"red")]
    assert [(file.path, file.body) for file in of_green.files] == [("report.xml", b"green")]


async def test_what_is_in_the_shared_directory_belongs_to_no_step(driver: Driver) -> None:
    writer = await driver.start("share:report.xml=shared", node_id="writer")
    reader = await driver.start("out:x", node_id="reader")
    await asyncio.gather(driver.runtime.wait(writer), driver.runtime.wait(reader))

    relative = await driver.runtime.collect(writer, "report.xml")
    absolute = await driver.runtime.collect(writer, "/partita/workspace/report.xml")

    assert relative.files == ()
    assert "export /partita/workspace/report.xml" in relative.hint
    assert [file.body for file in absolute.files] == [b"shared"]


async def test_a_new_attempt_does_not_find_the_files_of_the_earlier_one(driver: Driver) -> None:
    first = await driver.start("drop:report.xml=stale", "write:more.xml=stale")
    await driver.runtime.wait(first)

    second = await driver.start("out:nothing", attempt=2)
    await driver.runtime.wait(second)

    assert await driver.runtime.collect(second, "report.xml") == Collected()
    assert await driver.runtime.collect(second, "more.xml") == Collected()


async def test_a_file_that_came_with_the_suite_is_a_result_only_if_the_step_wrote_it(
    driver: Driver,
) -> None:
    driver.files = {"report.xml": "of yesterday"}
    idle = await driver.start("out:nothing", node_id="idle")
    busy = await driver.start("drop:report.xml=of today", node_id="busy")
    await asyncio.gather(driver.runtime.wait(idle), driver.runtime.wait(busy))

    of_idle = await driver.runtime.collect(idle, "report.xml")
    of_busy = await driver.runtime.collect(busy, "report.xml")

    assert of_idle.files == ()
    assert [file.body for file in of_busy.files] == [b"of today"]


async def test_a_directory_without_files_is_filled_by_the_job_that_brings_them(
    driver: Driver,
) -> None:
    files, driver.files = driver.files, {}
    first = await driver.start("out:no files here", node_id="a")
    assert await driver.texts(first) == ["no files here\n"]

    driver.files = files
    second = await driver.start("out:now", node_id="b")
    third = await driver.start("out:still", node_id="c")

    assert await driver.texts(second) == ["now\n"]
    assert await driver.texts(third) == ["still\n"]
    found = await driver.runtime.collect(third, "/partita/workspace/tasks/hello.sh")
    assert [file.body for file in found.files] == [b"echo hello\n"]


async def test_artifacts_are_collected_by_glob(driver: Driver) -> None:
    unit = await driver.start("write:reports/a.xml=one", "write:reports/deep/b.xml=two")
    await driver.runtime.wait(unit)

    flat = await driver.runtime.collect(unit, "reports/*.xml")
    deep = await driver.runtime.collect(unit, "reports/**/*.xml")
    none = await driver.runtime.collect(unit, "*.json")

    assert [(file.path, file.body) for file in flat.files] == [("reports/a.xml", b"one")]
    assert {file.path for file in deep.files} == {"reports/a.xml", "reports/deep/b.xml"}
    assert none.files == ()


async def test_an_export_path_cannot_climb(driver: Driver) -> None:
    unit = await driver.start("out:x")
    await driver.runtime.wait(unit)

    with pytest.raises(PathRefused):
        await driver.runtime.collect(unit, "../../etc/passwd")


async def test_a_program_that_does_not_exist_ends_with_127(driver: Driver) -> None:
    launch = driver.launch(node={"commands": [], "command": ["/no/such/program"]})

    try:  # at the start, or by the unit's own init
        code = (await driver.runtime.wait(await driver.runtime.start(launch))).exit_code
    except StartFailed as error:
        code = error.exit_code

    assert code == 127


async def test_a_removed_unit_is_lost(driver: Driver) -> None:
    unit = await driver.start("serve")

    await driver.runtime.remove(unit)
    await driver.runtime.remove(unit)

    with pytest.raises(UnitLost):
        await driver.runtime.wait(unit)


async def test_a_command_runs_inside_the_unit(driver: Driver) -> None:
    unit = await driver.start("serve")

    assert await driver.runtime.run_inside(unit, ["true"], timeout_s=10) == 0
    assert await driver.runtime.run_inside(unit, ["false"], timeout_s=10) == 1


async def test_a_command_that_prints_much_is_judged_by_its_exit_code_alone(driver: Driver) -> None:
    if isinstance(driver.runtime, FakeRuntime):
        pytest.skip("the fake runs no programs")
    unit = await driver.start("serve")
    much = ["sh", "-c", "head -c 30000000 /dev/zero; exit 3"]

    assert await driver.runtime.run_inside(unit, much, timeout_s=60) == 3


async def test_commands_that_hang_hold_up_nothing(driver: Driver) -> None:
    if isinstance(driver.runtime, FakeRuntime):
        pytest.skip("the fake runs no programs")
    unit = await driver.start("serve")
    hanging = [driver.runtime.run_inside(unit, ["sleep", "20"], timeout_s=2) for _ in range(20)]

    codes = await asyncio.gather(*hanging)

    async with asyncio.timeout(10):
        assert await driver.runtime.run_inside(unit, ["true"], timeout_s=10) == 0
    assert set(codes) == {124}


async def test_the_environment_reaches_the_step(driver: Driver) -> None:
    unit = await driver.start("env:PARTITA_STEP_ID", "env:GREETING", env={"GREETING": "hi"})

    assert await driver.texts(unit) == ["step\n", "hi\n"]


async def test_no_variable_of_the_supervisor_reaches_the_step(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 21."""
    monkeypatch.setenv("OF_THE_SUPERVISOR", "a secret")
    unit = await driver.start("env:OF_THE_SUPERVISOR", "env:PARTITA_STEP_ID")

    assert await driver.texts(unit) == ["\n", "step\n"]


async def test_a_busy_unit_uses_cpu_and_memory_until_its_end(driver: Driver) -> None:
    unit = await driver.start("busy")
    await asyncio.sleep(0.5)

    first = await driver.runtime.usage(unit)
    second = await driver.runtime.usage(unit)  # at once: its CPU may not be known, or be the same
    await driver.runtime.stop(unit, grace_s=0)

    assert first is not None
    assert first.cpu_percent is not None
    assert 0 < first.cpu_percent < 1000
    assert first.memory_bytes is not None
    assert 0 < first.memory_bytes < 2**30
    assert second is not None
    assert await driver.runtime.usage(unit) is None


async def test_cpu_is_that_since_the_look_before(driver: Driver) -> None:
    unit = await driver.start("serve")
    await asyncio.sleep(0.5)
    await driver.runtime.usage(unit)
    await asyncio.sleep(1)

    again = await driver.runtime.usage(unit)

    assert again is not None
    assert again.cpu_percent is not None
    assert again.cpu_percent < 50


async def test_what_is_gone_uses_nothing(driver: Driver) -> None:
    unit = await driver.start("serve")

    await driver.runtime.remove(unit)

    with contextlib.suppress(UnitLost):
        assert await driver.runtime.usage(unit) is None


async def test_release_leaves_nothing_of_the_run(driver: Driver) -> None:
    await driver.start("serve", node_id="one")
    await driver.start("out:x", node_id="two")
    assert await driver.runtime.runs(steps.owner()) == {driver.run_id}

    removed = await driver.runtime.release(driver.run_id, steps.owner())

    assert removed.containers == 2
    assert removed.leftovers == ()
    assert await driver.runtime.find(steps.owner()) == []
    assert await driver.runtime.runs(steps.owner()) == frozenset()


async def test_every_resource_of_the_installation_is_listed_and_nothing_else(
    driver: Driver,
) -> None:
    running = await driver.start("serve", node_id="running")
    ended = await driver.start("exit:3", node_id="ended")
    await driver.runtime.wait(ended)

    listed = [
        each
        for each in await driver.again().list_resources()
        if each.labels.get(ownership.RUN_ID) == driver.run_id
    ]

    containers = {each.name: each for each in listed if each.kind == "container"}
    assert set(containers) == {running.name, ended.name}
    assert (containers[running.name].state, containers[running.name].exit_code) == ("running", None)
    assert (containers[ended.name].state, containers[ended.name].exit_code) == ("exited", 3)
    for each in listed:
        assert ownership.is_owned(each.labels, steps.INSTALLATION)
        assert each.created_at.microsecond == 0


async def test_a_resource_looked_at_again_is_the_same_one(driver: Driver) -> None:
    await driver.start("serve")
    listed = await driver.runtime.list_resources()

    for each in listed:
        again = await driver.runtime.look_at(each)
        assert again is not None, each
        assert each.is_same(again), (each, again)


async def test_a_removed_resource_is_gone_and_removing_it_again_says_so(driver: Driver) -> None:
    await driver.start("serve")
    listed = [
        each
        for each in await driver.runtime.list_resources()
        if each.labels[ownership.RUN_ID] == driver.run_id
    ]
    assert listed

    for each in listed:  # containers come first
        assert await driver.runtime.remove_resource(each)

    for each in listed:
        assert await driver.runtime.look_at(each) is None
        assert await driver.runtime.remove_resource(each)
    assert not [
        each
        for each in await driver.runtime.list_resources()
        if each.labels[ownership.RUN_ID] == driver.run_id
    ]


async def test_a_unit_that_is_started_ahead_runs_when_it_is_started(driver: Driver) -> None:
    """Runtimes whose units have nothing to gain do nothing, and start as without it."""
    await driver.runtime.wait(await driver.start("out:first", node_id="first"))
    launch = driver.launch("out:done")

    is_ahead = await driver.runtime.start_ahead(launch)
    before = await driver.runtime.find(steps.owner())
    unit = await driver.runtime.start(launch)
    end = await driver.runtime.wait(unit)

    assert is_ahead == driver.runtime.starts_ahead
    assert [each.labels[ownership.STEP] for each in before] == ["first"]
    assert (end.exit_code, await driver.texts(unit)) == (0, ["done\n"])


async def test_what_was_started_ahead_can_be_removed(driver: Driver) -> None:
    await driver.runtime.wait(await driver.start("out:first", node_id="first"))
    await driver.runtime.start_ahead(driver.launch("out:done"))

    await driver.runtime.remove_ahead(driver.run_id, "step")
    await driver.runtime.remove_ahead(driver.run_id, "never")

    assert len(await driver.runtime.find(steps.owner())) == 1
