"""Pods that are started ahead: their program waits at a gate until the step may run.

On an API server whose pods are processes of this host, and on a real cluster.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from kernel import clock
from kernel.agent_protocol import RuntimeResource
from tests.contracts.runtime.conftest import (
    Driver,
    LocalClusterDriver,
    local_cluster_driver,
    plugin_driver,
)
from tests.support import steps
from worker.domain import ownership
from worker.domain.evaluation import UnitExit
from worker.domain.runtime import Launch, NeverBegan, RuntimeFailure, Unit, UnitState
from worker.domain.step_spec import Port
from worker.runtimes.kubernetes import pod_gate, pod_scripts, pod_starts
from worker.runtimes.kubernetes.client import ClusterClient, RequestDenied
from worker.runtimes.kubernetes.runtime import KubernetesRuntime

QUOTA = "exceeded quota: team, requested: pods=1, used: pods=3, limited: pods=3"


@pytest.fixture(
    params=[
        pytest.param(local_cluster_driver, id="kubernetes-local"),
        pytest.param(plugin_driver("kubernetes"), id="kubernetes", marks=pytest.mark.cluster),
    ]
)
async def driver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Driver]:
    make: Callable[[Path], Driver] = request.param
    async with AsyncExitStack() as stack:
        made = make(tmp_path)
        await made.open(stack)
        yield made
        await made.close()


@pytest.fixture
async def local(tmp_path: Path) -> AsyncGenerator[LocalClusterDriver]:
    async with AsyncExitStack() as stack:
        made = local_cluster_driver(tmp_path)
        await made.open(stack)
        yield made
        await made.close()


async def ended(driver: Driver, launch: Launch) -> tuple[Unit, UnitExit]:
    unit = await driver.runtime.start(launch)
    return unit, await driver.runtime.wait(unit)


async def pods(driver: Driver) -> dict[str, RuntimeResource]:
    """Return the step of each pod of the run → the pod."""
    listed = await driver.runtime.list_resources()
    return {
        each.labels[ownership.STEP]: each
        for each in listed
        if each.labels[ownership.RUN_ID] == driver.run_id
    }


async def uid(driver: Driver) -> str:
    runtime = driver.runtime
    assert isinstance(runtime, KubernetesRuntime)
    pod = await runtime._pods.read(driver.launch("out:x").name)
    return pod.metadata.uid if pod else ""


async def test_the_program_waits_until_its_step_is_started(driver: Driver) -> None:
    launch = driver.launch("write:ran.txt=yes", "out:done", "exit:3")

    assert await driver.runtime.start_ahead(launch)
    waiting = (await pods(driver))["step"]
    assert (waiting.labels[ownership.GATE], waiting.started_at) == ("true", None)
    assert await driver.runtime.find(steps.owner()) == []  # it is no unit yet
    await asyncio.sleep(1)  # long enough for a program that does not wait

    asked_at = clock.now()
    unit, end = await ended(driver, launch)

    assert (unit.id, unit.name) == (waiting.id, launch.name)
    assert end.exit_code == 3
    assert unit.started_at is not None
    assert clock.rfc3339(unit.started_at) >= clock.rfc3339(asked_at)  # not when the gate began
    [record] = await driver.records(unit)
    assert record.data == b"done\n"
    assert (record.time or "") >= clock.rfc3339(asked_at)
    assert (await pods(driver))["step"].started_at == unit.started_at
    assert unit.labels[ownership.STARTED_AT] == launch.labels[ownership.STARTED_AT]


REPORT = "sh:env | sort | grep -v -e HOSTNAME -e _= -e SHLVL; pwd; readlink /proc/self/fd/0; ls; id"


async def test_the_program_finds_what_it_finds_without_a_gate(driver: Driver) -> None:
    env = {"A": "two\nlines", "Z": "ü $HOME 'x' $(A) $$", "PATH_LIKE": "a:b"}
    cold, cold_end = await ended(driver, driver.launch(REPORT, node_id="cold", env=env))
    launch = driver.launch(REPORT, node_id="gate", env=env)
    assert await driver.runtime.start_ahead(launch)

    unit, end = await ended(driver, launch)

    assert unit.name.endswith("-gate-a1")
    expected = [text.replace("cold", "gate") for text in await driver.texts(cold)]
    assert await driver.texts(unit) == expected
    assert end == cold_end


async def test_a_signal_reaches_the_program(driver: Driver) -> None:
    launch = driver.launch("sh:trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done")
    assert await driver.runtime.start_ahead(launch)
    unit = await driver.runtime.start(launch)
    async for records in driver.runtime.output(unit):
        assert records[0].data == b"ready\n"
        break

    await driver.runtime.stop(unit)

    assert (await driver.runtime.wait(unit)).exit_code == 7


@pytest.mark.parametrize("what", ["command", "variable", "files", "attempt"])
async def test_another_launch_gets_a_pod_of_its_own(driver: Driver, what: str) -> None:
    assert await driver.runtime.start_ahead(driver.launch("env:A", env={"A": "old"}))
    before = await uid(driver)
    asked = driver.launch("env:A", env={"A": "old"})
    if what == "command":
        asked = driver.launch("out:other", env={"A": "old"})
    elif what == "variable":
        asked = driver.launch("env:A", env={"A": "new"})
    elif what == "files":
        asked = replace(driver.launch("env:A", env={"A": "old"}), step_files=b"")
    else:
        asked = driver.launch("env:A", attempt=2, env={"A": "old"})

    unit, _ = await ended(driver, asked)

    expected = {"command": ["other\n"], "variable": ["new\n"]}
    assert await driver.texts(unit) == expected.get(what, ["old\n"])
    assert before
    assert await uid(driver) != before


async def test_what_earlier_steps_wrote_meanwhile_is_there(driver: Driver) -> None:
    first = driver.launch("sleep:1", "share:from=first", node_id="first")
    unit = await driver.runtime.start(first)
    launch = driver.launch("sh:cat $PARTITA_WORKSPACE_DIR/from; cat tasks/hello.sh")
    assert await driver.runtime.start_ahead(launch)
    before = await uid(driver)
    await driver.runtime.wait(unit)

    second, _ = await ended(driver, launch)

    assert "".join(await driver.texts(second)) == "firstecho hello\n"
    assert await uid(driver) == before


async def test_a_service_that_came_meanwhile_is_found_by_its_name(driver: Driver) -> None:
    launch = driver.launch("sh:grep -q db /etc/hosts || echo absent")
    assert await driver.runtime.start_ahead(launch)
    before = await uid(driver)
    node = {"kind": "service", "ports": ["8080"]}
    await driver.runtime.start(driver.launch("serve", node_id="db", node=node))

    await driver.runtime.start(launch)

    assert await uid(driver) != before


async def test_some_launches_are_not_started_ahead(driver: Driver) -> None:
    launch = driver.launch("out:x")
    refused = [
        replace(launch, kind="service"),
        replace(launch, ports=(Port(number=80),)),
        replace(launch, environment={**launch.environment, "spring.profile": "x"}),
        replace(launch, program=replace(launch.program, entrypoint=None)),
        replace(launch, image=""),
    ]

    assert [await driver.runtime.start_ahead(each) for each in refused] == [False] * len(refused)
    assert await pods(driver) == {}


async def test_a_program_that_is_not_there_fails_as_it_does_without_a_gate(driver: Driver) -> None:
    def absent(node_id: str) -> Launch:
        launch = driver.launch("out:x", node_id=node_id)
        program = replace(launch.program, entrypoint=("/no/such", "x"), starts_in="image")
        return replace(launch, program=program)

    with pytest.raises(RuntimeFailure) as cold:
        await driver.runtime.start(absent("cold"))
    await driver.runtime.start_ahead(absent("step"))
    with pytest.raises(RuntimeFailure) as gated:
        await driver.runtime.start(absent("step"))

    assert "/no/such" in str(gated.value)
    assert gated.value.reason == cold.value.reason


async def test_what_does_not_come_is_removed(driver: Driver) -> None:
    assert await driver.runtime.start_ahead(driver.launch("out:x"))

    await driver.runtime.remove_ahead(driver.run_id, "step")
    await driver.runtime.remove_ahead(driver.run_id, "step")

    assert await pods(driver) == {}


async def test_a_released_run_keeps_nothing(driver: Driver) -> None:
    assert await driver.runtime.start_ahead(driver.launch("out:x"))

    released, *_ = await asyncio.gather(
        driver.runtime.release(driver.run_id, steps.owner()),
        driver.runtime.start_ahead(driver.launch("out:x", node_id="other")),
    )

    assert not released.leftovers
    assert await pods(driver) == {}
    assert not await driver.runtime.start_ahead(driver.launch("out:x"))


KILLED = """
import asyncio, os, sys
from pathlib import Path
from tests.contracts.runtime.conftest import Driver, shell_node
from tests.support import steps
from worker.domain.cluster_options import ClusterOptions
from worker.domain.runtime import RuntimeOptions
from worker.runtimes.kubernetes import pod_gate
from worker.runtimes.kubernetes.runtime import KubernetesRuntime

async def main(folder, run_id, installation, when, server, kubeconfig):
    steps.INSTALLATION = installation
    namespace = "apps" if server else ""
    cluster = ClusterOptions(server=server, kubeconfig=kubeconfig, namespace=namespace)
    options = RuntimeOptions(
        state_dir=Path(folder), installation_id=installation, cluster=cluster
    )
    driver = Driver(
        runtime=KubernetesRuntime(options), reopen=lambda: None, words_to_node=shell_node
    )
    driver.run_id = run_id
    launch = driver.launch("share:ran=once", "out:done", "sleep:2", "exit:3")
    assert await driver.runtime.start_ahead(launch)
    if when == "noted":
        pod_gate.PodGate.release = die
    if when != "ahead":
        await driver.runtime.start(launch)
    await die()

async def die(gate=None):
    print("ready", flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main(*sys.argv[1:]))
"""


async def kill_a_process(driver: Driver, folder: Path, when: str) -> None:
    """Have a process that starts a step ahead killed before or behind the release."""
    server, kubeconfig = "", os.environ.get("TEST_KUBECONFIG", "")
    if isinstance(driver, LocalClusterDriver):
        server, kubeconfig = f"http://127.0.0.1:{driver.port}", ""
    words = [str(folder), driver.run_id, steps.INSTALLATION, when, server, kubeconfig]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", KILLED, *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    async with asyncio.timeout(120):
        said, errors = await process.communicate()
    assert (process.returncode, said) == (-signal.SIGKILL, b"ready\n"), errors.decode()


def killed_launch(driver: Driver) -> Launch:
    return driver.launch("share:ran=once", "out:done", "sleep:2", "exit:3")


async def until_exited(driver: Driver, exit_code: int) -> None:
    async with asyncio.timeout(30):
        while (await pods(driver))["step"].exit_code != exit_code:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)


async def test_a_gate_ends_with_its_process_and_nothing_has_run(
    driver: Driver, tmp_path: Path
) -> None:
    await kill_a_process(driver, tmp_path, "ahead")
    await until_exited(driver, 125)
    before = await uid(driver)

    unit, end = await ended(driver, killed_launch(driver))

    assert end.exit_code == 3
    assert await driver.texts(unit) == ["done\n"]
    assert await uid(driver) != before


async def test_whoever_finds_a_gate_of_an_ended_process_removes_it(
    driver: Driver, tmp_path: Path
) -> None:
    await kill_a_process(driver, tmp_path, "ahead")
    assert list(await pods(driver)) == ["step"]
    assert await driver.runtime.runs(steps.owner()) >= {driver.run_id}

    found = await driver.runtime.find(steps.owner())

    assert driver.run_id not in {each.labels[ownership.RUN_ID] for each in found}
    assert await pods(driver) == {}


async def test_a_release_that_was_noted_and_never_said_has_begun_nothing(
    driver: Driver, tmp_path: Path
) -> None:
    await kill_a_process(driver, tmp_path, "noted")
    await until_exited(driver, 125)

    found = await driver.runtime.find(steps.owner())
    unit, end = await ended(driver, killed_launch(driver))

    assert driver.run_id not in {each.labels[ownership.RUN_ID] for each in found}
    assert (await driver.texts(unit), end.exit_code) == (["done\n"], 3)


async def test_a_released_program_outlives_its_process(driver: Driver, tmp_path: Path) -> None:
    await kill_a_process(driver, tmp_path, "released")

    [unit] = [
        each
        for each in await driver.runtime.find(steps.owner())
        if each.labels[ownership.RUN_ID] == driver.run_id
    ]
    again = await driver.runtime.start(killed_launch(driver))
    end = await driver.runtime.wait(unit)

    assert (again.id, again.started_at) == (unit.id, unit.started_at)
    assert unit.state is not UnitState.CREATED
    assert (await driver.texts(unit), end.exit_code) == (["done\n"], 3)


async def test_a_gate_that_has_ended_is_not_opened(driver: Driver) -> None:
    launch = driver.launch("out:done")
    assert await driver.runtime.start_ahead(launch)
    before = await uid(driver)
    unit = Unit(id=launch.name, name=launch.name, state=UnitState.RUNNING, labels=launch.labels)
    await driver.again().stop(unit, grace_s=0)

    again, end = await ended(driver, launch)

    assert end.exit_code == 0
    assert await uid(driver) != before
    assert await driver.texts(again) == ["done\n"]


async def test_a_gate_that_hears_nothing_ends(
    local: LocalClusterDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As over a network that is cut without a sign."""
    monkeypatch.setattr(
        pod_scripts, "WAIT_AT_GATE", pod_scripts.WAIT_AT_GATE.replace("-t 60", "-t 1")
    )
    launch = local.launch("out:done")

    assert await local.runtime.start_ahead(launch)

    await until_exited(local, 125)
    assert (await ended(local, launch))[1].exit_code == 0


async def test_a_gate_is_held_by_words(
    local: LocalClusterDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        pod_scripts, "WAIT_AT_GATE", pod_scripts.WAIT_AT_GATE.replace("-t 60", "-t 1")
    )
    monkeypatch.setattr(pod_gate, "_BEAT_S", 0.2)
    launch = local.launch("out:done")
    assert await local.runtime.start_ahead(launch)
    before = await uid(local)
    await asyncio.sleep(2.5)  # twice as long as it is held without a word

    await ended(local, launch)

    assert await uid(local) == before


async def test_a_step_whose_release_does_not_arrive_can_be_started_again(
    local: LocalClusterDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = local.launch("write:ran.txt=yes", "out:done")
    assert await local.runtime.start_ahead(launch)

    async def lose(gate: pod_gate.PodGate, data: bytes) -> None:
        del data
        await gate._connection.close()

    with monkeypatch.context() as patched:
        patched.setattr(pod_gate.PodGate, "_write", lose)
        unit = await local.runtime.start(launch)
        with pytest.raises(NeverBegan, match="release did not reach it: nothing has run") as lost:
            await local.runtime.wait(unit)

    assert lost.value.reason == "runtime_unavailable"
    assert (await ended(local, launch))[1].exit_code == 0


async def test_a_step_that_is_dropped_before_its_release_never_runs(
    local: LocalClusterDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = local.launch("out:done")
    assert await local.runtime.start_ahead(launch)
    entered = asyncio.Event()

    async def wait_forever(*_: object) -> None:
        entered.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(pod_starts.PodStarts, "remove_earlier", wait_forever)
        starting = asyncio.create_task(local.runtime.start(launch))
        await entered.wait()
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)

    assert await pods(local) == {}
    unit, _ = await ended(local, launch)
    assert await local.texts(unit) == ["done\n"]


async def test_a_pod_for_which_there_is_no_quota_is_not_waited_for(
    local: LocalClusterDriver,
) -> None:
    local.cluster.deny_pods(QUOTA)

    assert not await local.runtime.start_ahead(local.launch("out:x"))

    local.cluster.deny_pods("")
    assert await pods(local) == {}
    assert not await local.runtime.start_ahead(local.launch("out:x"))  # for a while
    assert (await ended(local, local.launch("out:x")))[1].exit_code == 0


async def test_what_waits_gives_way_to_a_step_that_finds_no_place(
    local: LocalClusterDriver,
) -> None:
    assert await local.runtime.start_ahead(local.launch("out:x", node_id="later"))
    local.cluster.deny_pods(QUOTA, while_there_are=1)

    _, end = await ended(local, local.launch("exit:4", node_id="now"))

    assert end.exit_code == 4
    assert list(await pods(local)) == ["now"]


async def test_without_the_right_to_attach_steps_start_as_before(
    local: LocalClusterDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def deny(*_: object) -> None:
        raise RequestDenied("pods is forbidden: cannot get resource pods/attach", 403)

    monkeypatch.setattr(ClusterClient, "attach_stdin", deny)

    assert not await local.runtime.start_ahead(local.launch("out:x"))

    assert await pods(local) == {}
    assert (await ended(local, local.launch("out:x")))[1].exit_code == 0


async def test_an_image_with_a_variable_that_a_shell_drops_starts_without_a_gate(
    local: LocalClusterDriver,
) -> None:
    local.cluster.image_variables = {"spring.profile": "x"}
    launch = local.launch("sh:tr '\\0' '\\n' < /proc/self/environ | grep spring || true")
    other = local.launch("out:x", node_id="other")

    assert not await local.runtime.start_ahead(launch)
    _, end = await ended(local, launch)
    local.cluster.image_variables.clear()

    assert end.exit_code == 0
    assert ownership.GATE not in (await pods(local))["step"].labels
    assert await local.runtime.start_ahead(other)
