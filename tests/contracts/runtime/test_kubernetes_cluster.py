"""What only a real cluster shows: kills in the middle of an output, and why pods do not run."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncGenerator, Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernel.pull_credentials import PullCredentials
from tests.contracts.runtime.conftest import Driver, shell_node
from tests.support import parts, steps
from tests.support.cluster_commands import kubectl
from tests.support.kubernetes.components import kill_and_restart
from worker.domain.cluster_options import ClusterOptions
from worker.domain.runtime import (
    ImageMissing,
    RuntimeFailure,
    RuntimeOptions,
    StartFailed,
    UnitLost,
)
from worker.runtimes.kubernetes.objects import KEEPER
from worker.runtimes.kubernetes.runtime import KubernetesRuntime

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
NUMBERED = "sh:i=0; while [ $i -lt 400 ]; do echo $i; i=$((i+1)); sleep 0.02; done"
REGISTRY = PullCredentials(host="registry.example", username="puller", secret="only-for-tests-4c1e")


@pytest.fixture
def pending_s() -> float:
    """How long a pod may wait for its start: longer than on the busiest machine."""
    return 60


@pytest.fixture
async def driver(tmp_path: Path, pending_s: float) -> AsyncGenerator[Driver]:
    def opened() -> KubernetesRuntime:
        return KubernetesRuntime(
            RuntimeOptions(
                state_dir=tmp_path,
                installation_id=steps.INSTALLATION,
                cluster=ClusterOptions(kubeconfig=parts.need_cluster()),
                credentials=lambda image: REGISTRY if image.startswith(REGISTRY.host) else None,
            ),
            pending_s=pending_s,
        )

    made = Driver(runtime=opened(), reopen=opened, words_to_node=shell_node)
    yield made
    await made.close()


def objects(kind: str, driver: Driver) -> list[Any]:
    label = f"partita.run_id={driver.run_id}"
    found: list[Any] = json.loads(kubectl("get", kind, "-l", label, "-o", "json"))["items"]
    return found


@pytest.mark.parametrize("victim", ["apiserver", "kubelet"])
async def test_no_line_is_lost_or_doubled_when_a_component_is_killed(
    driver: Driver, victim: str
) -> None:
    unit = await driver.start(NUMBERED)

    reading = asyncio.create_task(driver.texts(unit))
    await asyncio.sleep(2)
    await asyncio.to_thread(kill_and_restart, victim)
    async with asyncio.timeout(60):
        lines = await reading
        ended = await driver.runtime.wait(unit)

    assert [int(line) for line in lines] == list(range(400))
    assert ended.exit_code == 0


async def test_a_successor_reads_an_output_on_where_its_predecessor_died(driver: Driver) -> None:
    unit = await driver.start(NUMBERED)
    first = [each async for batch in _some(driver, unit, 100) for each in batch]

    after = first[-1].position
    again = driver.again()
    rest = [each async for batch in again.output(unit, after=after) for each in batch]

    assert [int(each.data) for each in (*first, *rest)] == list(range(400))


async def _some(driver: Driver, unit: Any, count: int) -> AsyncGenerator[Any]:
    taken = 0
    async for batch in driver.runtime.output(unit):
        yield batch
        taken += len(batch)
        if taken >= count:
            return


async def reason(of: Awaitable[object]) -> tuple[str, str]:
    with pytest.raises(RuntimeFailure) as failure:
        await of
    return failure.value.reason, str(failure.value)


async def no_pull(image: str) -> None:
    del image


@pytest.mark.parametrize("pending_s", [6])
async def test_an_image_that_no_registry_has_is_said_in_the_registrys_words(driver: Driver) -> None:
    launch = driver.launch("out:x", node={"image": "127.0.0.1:1/no/such:1"})

    with pytest.raises(ImageMissing) as missing:
        await driver.runtime.prepare(launch, pulling=no_pull, waiting=no_pull)

    assert "image 127.0.0.1:1/no/such:1 could not be pulled: " in str(missing.value)
    assert "connection refused" in str(missing.value)
    assert objects("pods", driver) == []


@pytest.mark.parametrize("pending_s", [6])
async def test_a_pod_that_no_node_takes_is_unschedulable_in_the_schedulers_words(
    driver: Driver,
) -> None:
    launch = driver.launch("out:x", node={"resources": {"cpu": 4, "memory": "4Gi"}})
    selected = _with(launch, cpus=4000.0)

    code, sentence = await reason(driver.runtime.start(selected))

    assert code == "unschedulable"
    assert "no node takes the step" in sentence
    assert "Insufficient cpu" in sentence


def _with(launch: Any, **limits: Any) -> Any:
    return replace(launch, limits=replace(launch.limits, **limits))


@pytest.mark.parametrize("pending_s", [6])
async def test_a_quota_that_is_used_up_is_waited_for_and_then_named(driver: Driver) -> None:
    quota = "partita-test-quota"
    kubectl("create", "quota", quota, "--hard=pods=0")
    try:
        code, sentence = await reason(driver.runtime.start(driver.launch("out:x")))
    finally:
        kubectl("delete", "quota", quota)

    assert code == "quota_exceeded"
    assert "the namespace's quota is used up" in sentence
    assert quota in sentence


async def test_a_step_waits_for_a_quota_in_its_words_and_runs_once_it_is_raised(
    driver: Driver,
) -> None:
    quota, words = "partita-test-short", []
    said = asyncio.Event()

    async def take(sentence: str) -> None:
        words.append(sentence)
        said.set()

    kubectl("create", "quota", quota, "--hard=pods=0")
    launch = driver.launch("out:at last")
    try:
        preparing = asyncio.create_task(
            driver.runtime.prepare(launch, pulling=no_pull, waiting=take)
        )
        async with asyncio.timeout(4):
            await said.wait()
    finally:
        kubectl("delete", "quota", quota)
    await preparing
    unit = await driver.runtime.start(launch)

    assert await driver.texts(unit) == ["at last\n"]
    assert "the namespace's quota is used up" in words[0]
    assert quota in words[0]
    assert words[1] == ""


async def test_a_step_that_takes_too_much_memory_is_killed_for_that(driver: Driver) -> None:
    launch = driver.launch("sh:x=a; while :; do x=$x$x; done")
    unit = await driver.runtime.start(_with(launch, memory_bytes=24 * 2**20))

    ended = await driver.runtime.wait(unit)

    assert (ended.exit_code, ended.oom_killed) == (137, True)


async def test_a_pod_deleted_by_hand_is_said_to_be(driver: Driver) -> None:
    unit = await driver.start("serve")
    waiting = asyncio.create_task(driver.runtime.wait(unit))
    await asyncio.sleep(0.2)

    kubectl("delete", "pod", unit.name, "--grace-period=0", "--force")

    with pytest.raises(UnitLost, match="deleted by someone else"):
        async with asyncio.timeout(20):
            await waiting


async def test_an_evicted_step_is_no_failure_of_its_own(driver: Driver) -> None:
    unit = await driver.start("serve")
    waiting = asyncio.create_task(driver.runtime.wait(unit))
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": unit.name, "namespace": "default"},
    }
    path = f"/api/v1/namespaces/default/pods/{unit.name}/eviction"

    kubectl("create", "--raw", path, "-f", "-", text=json.dumps(body))

    async with asyncio.timeout(30):
        code, sentence = await reason(waiting)
    assert code == "evicted"
    assert "evicted" in sentence


async def listed_pods(driver: Driver) -> list[Any]:
    for _ in range(50):
        if pods := objects("pods", driver):
            return pods
        await asyncio.sleep(0.1)
    raise AssertionError("there is no pod")


async def test_variables_and_credentials_are_in_no_pod(driver: Driver) -> None:
    launch = driver.launch(
        "out:x", env={"TOKEN": "s3cret-of-the-step"}, node={"image": f"{REGISTRY.host}/shop:1"}
    )
    starting = asyncio.create_task(driver.runtime.start(launch))
    pods = await listed_pods(driver)
    text = json.dumps(pods)
    kept = json.dumps([each["data"] for each in objects("secrets", driver)])
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)

    assert "s3cret-of-the-step" not in text
    assert REGISTRY.secret not in text
    assert base64.b64encode(b"s3cret-of-the-step").decode() in kept
    security = pods[0]["spec"]["containers"][0]["securityContext"]
    assert security == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert pods[0]["spec"]["automountServiceAccountToken"] is False


async def test_files_larger_than_a_secret_reach_the_step(driver: Driver) -> None:
    noise = base64.b85encode(os.urandom(3 * 2**20)).decode()
    driver.files = {"large.txt": noise}
    unit = await driver.start("sh:wc -c < $PARTITA_STEP_DIR/large.txt")

    assert [int(line) for line in await driver.texts(unit)] == [len(noise)]


async def test_a_service_is_reached_by_its_name_from_a_later_step(driver: Driver) -> None:
    answer = "HTTP/1.0 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nhi"
    served = f"sh:while :; do printf '{answer}' | nc -l -p 8080 >/dev/null; done"
    await driver.start(served, node_id="web", node={"kind": "service", "ports": ["8080"]})

    client = await driver.start("sh:wget -q -O - http://web:8080/", node_id="client")

    assert "".join(await driver.texts(client)).strip() == "hi"
    assert [each["spec"]["ports"][0]["port"] for each in objects("services", driver)] == [8080]


async def test_dollars_of_a_command_reach_the_shell(driver: Driver) -> None:
    unit = await driver.start("sh:echo '$(HOME) $$'; [ $$ -gt 0 ] && echo $((40+2))")

    assert "".join(await driver.texts(unit)).split("\n")[:2] == ["$(HOME) $$", "42"]


async def test_a_program_that_cannot_be_started_is_the_steps_own_failure(driver: Driver) -> None:
    launch = driver.launch(node={"commands": [], "command": ["/no/such/program"]})

    with pytest.raises(StartFailed) as failure:
        await driver.runtime.start(launch)

    assert failure.value.exit_code == 127
    assert "no such file or directory" in str(failure.value)


END_KEEPER = """own=$(cat /proc/self/cgroup); for d in /proc/[0-9]*; do p=${d#/proc/}
[ "$p" != 1 ] && [ "$(cat $d/cgroup 2>/dev/null)" = "$own" ] && echo $p
done | sort -n | head -n 1 | xargs kill -KILL"""


async def test_a_keeper_that_ends_early_is_replaced_and_its_files_are_taken(driver: Driver) -> None:
    unit = await driver.start("sh:sleep 6; echo kept >$PARTITA_ARTIFACTS_DIR/out.txt; exit 3")
    waiting = asyncio.create_task(driver.runtime.wait(unit))

    with pytest.raises(AssertionError, match="137"):
        kubectl("exec", unit.name, "-c", KEEPER, "--", "sh", "-c", f"{END_KEEPER}; sleep 60")

    async with asyncio.timeout(60):
        ended = await waiting
        [file] = (await driver.runtime.collect(unit, "out.txt")).files
    assert (ended.exit_code, file.body) == (3, b"kept\n")
    [pod] = objects("pods", driver)
    assert [each["name"] for each in pod["spec"]["ephemeralContainers"]] == ["keeper-1"]
