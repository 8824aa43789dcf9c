"""Who asks a service whether it is ready: this process, or a helper in the run's network."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.runtime.conftest import Driver, shell_node
from tests.support import steps
from tests.support.parts import need
from worker.domain import ownership
from worker.domain.readiness import HttpProbe, ProbeResponse, TcpProbe
from worker.domain.runtime import RuntimeOptions, Unit
from worker.runtimes.docker.runtime import DockerRuntime

pytestmark = pytest.mark.docker
HTTP = HttpProbe(path="health", port=8080)
TCP = TcpProbe(port=8080)
NONE: Mapping[str, str] = {}
ANSWER = r"HTTP/1.1 204 Ready\r\nContent-Length: 0\r\n\r\n"
HEAR = 'while read -r line && [ ${#line} -gt 1 ]; do echo "$line" >&2; done'
LISTENS = f"""
cat > /tmp/answer <<'END'
{HEAR}; printf '{ANSWER}'
END
while :; do nc -l -p 8080 -e sh /tmp/answer || true; done"""


def docker(*words: str) -> str:
    command = ["docker", "-H", need("TEST_DOCKER_HOST", "a Docker engine"), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=180).stdout


Make = Callable[..., Driver]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncGenerator[Make]:
    """Drivers of a run each; what they leave is removed at the end."""
    made: list[Driver] = []

    def create(*, options: dict[str, Any] | None = None, **arguments: Any) -> Driver:
        settings: dict[str, Any] = {"state_dir": tmp_path} | (options or {})

        def runtime() -> DockerRuntime:
            return DockerRuntime(
                RuntimeOptions(installation_id=steps.INSTALLATION, **settings), **arguments
            )

        made.append(Driver(runtime=runtime(), reopen=runtime, words_to_node=shell_node))
        return made[-1]

    yield create
    for driver in made:
        await driver.runtime.release(driver.run_id, steps.owner())
        await driver.runtime.close()


def elsewhere() -> dict[str, frozenset[str]]:
    """The interfaces of a process that is on no network of the engine."""
    return {"lo": frozenset({"127.0.0.1"})}


def containers_of(driver: Driver) -> dict[str, str]:
    """Name → id, of every container of the run."""
    wanted = f"label={ownership.RUN_ID}={driver.run_id}"
    listed = docker("ps", "-a", "--no-trunc", "--filter", wanted, "--format", "{{.Names}} {{.ID}}")
    return dict(line.split() for line in listed.splitlines())


async def service(driver: Driver, command: str = LISTENS, **changes: Any) -> Unit:
    return await driver.start(node={"kind": "service", "commands": [command]}, **changes)


async def until_answered(
    driver: Driver, unit: Unit, probe: HttpProbe | TcpProbe, headers: Mapping[str, str] = NONE
) -> ProbeResponse:
    async with asyncio.timeout(20):
        while (answer := await driver.runtime.probe_inside(unit, probe, headers)).problem:
            assert "cannot be made" not in answer.problem
            await asyncio.sleep(0.1)
    return answer


async def test_on_the_engines_own_host_the_container_is_asked_directly(make: Make) -> None:
    driver = make()
    unit = await service(driver)

    endpoint = await driver.runtime.endpoint(unit, 8080)

    assert endpoint is not None
    assert (
        endpoint[0]
        == json.loads(docker("inspect", unit.id))[0]["NetworkSettings"]["Networks"][
            ownership.network_name(driver.run_id)
        ]["IPAddress"]
    )
    assert set(containers_of(driver)) == {unit.name}


async def test_an_address_that_is_not_proven_to_be_the_containers_is_not_asked(make: Make) -> None:
    """Invariant 1: an interface with the bridge's address may lie on another network."""
    driver = make(interfaces=lambda: {"eth0": frozenset({"172.17.0.1", "172.18.0.1"})})
    unit = await service(driver)

    assert await driver.runtime.endpoint(unit, 8080) is None


async def test_elsewhere_a_helper_in_the_runs_network_asks(make: Make) -> None:
    driver = make(interfaces=elsewhere)
    unit = await service(driver)

    status = (await until_answered(driver, unit, HTTP)).status
    answer = await until_answered(driver, unit, TCP)

    assert await driver.runtime.endpoint(unit, 8080) is None
    assert (status, answer) == (204, ProbeResponse())


async def test_headers_reach_the_service_and_no_process_list(make: Make) -> None:
    """Invariant 19."""
    driver = make(interfaces=elsewhere)
    unit = await service(driver)

    await until_answered(driver, unit, HTTP, {"X-Suite-Token": "s3cret-token"})

    helper = ownership.helper_name(driver.run_id)
    assert "s3cret-token" not in docker("top", helper) + docker("inspect", helper)
    await driver.runtime.stop(unit, grace_s=1)
    text = "".join(await driver.texts(unit)).lower()
    assert "get /health http/1.1" in text
    assert "x-suite-token: s3cret-token" in text


@pytest.mark.parametrize("headers", [{"x y": "1"}, {"x": "1\r\nhost: evil"}])
async def test_headers_that_are_none_are_not_sent(make: Make, headers: dict[str, str]) -> None:
    driver = make(interfaces=elsewhere)
    unit = await service(driver)

    answer = await driver.runtime.probe_inside(unit, HTTP, headers)

    assert "cannot be made" in answer.problem


async def test_what_does_not_listen_yet_has_a_problem_that_says_so(make: Make) -> None:
    """Invariant 1."""
    driver = make(interfaces=elsewhere)
    unit = await service(driver, "sleep 60")

    answers = [await driver.runtime.probe_inside(unit, probe, {}) for probe in (HTTP, TCP)]

    assert [answer.status for answer in answers] == [None, None]
    assert all("refused" in answer.problem for answer in answers)


async def test_a_service_that_closes_without_an_answer_is_not_ready(make: Make) -> None:
    """Invariant 1."""
    driver = make(interfaces=elsewhere)
    unit = await service(driver, "while :; do nc -l -p 8080 -e true; done")
    await until_answered(driver, unit, TCP)

    answer = await driver.runtime.probe_inside(unit, HTTP, {})

    assert answer.status is None
    assert answer.problem


async def test_the_helper_carries_the_runs_labels_and_counts_as_no_step(make: Make) -> None:
    driver = make(interfaces=elsewhere)
    unit = await service(driver)
    await until_answered(driver, unit, TCP)

    helper = json.loads(docker("inspect", ownership.helper_name(driver.run_id)))[0]

    labels = helper["Config"]["Labels"]
    assert {**labels, **ownership.without_step(unit.labels)} == labels
    assert not {ownership.STEP, ownership.ATTEMPT, ownership.JOB_ID} & labels.keys()
    assert helper["HostConfig"]["CapDrop"] == ["ALL"]
    assert not helper["HostConfig"]["Binds"]
    assert not helper["HostConfig"]["PortBindings"]
    assert [each.id for each in await driver.runtime.find(steps.owner())] == [unit.id]


async def test_a_run_has_one_helper_whoever_asks(make: Make) -> None:
    driver = make(interfaces=elsewhere)
    one, two = await service(driver, node_id="one"), await service(driver, node_id="two")
    await asyncio.gather(*(until_answered(driver, unit, TCP) for unit in (one, two)))
    successor = driver.again()

    answer = await successor.probe_inside(one, TCP, {})
    await successor.close()

    assert "cannot be made" not in answer.problem
    assert set(containers_of(driver)) == {one.name, two.name, ownership.helper_name(driver.run_id)}


async def test_a_helper_that_died_is_made_anew(make: Make) -> None:
    driver = make(interfaces=elsewhere)
    unit = await service(driver)
    await until_answered(driver, unit, TCP)
    docker("kill", ownership.helper_name(driver.run_id))

    first = await driver.runtime.probe_inside(unit, TCP, {})
    await until_answered(driver, unit, TCP)

    assert "cannot be made" in first.problem


async def test_a_helper_left_by_a_crash_is_removed_with_its_run(make: Make) -> None:
    """Invariant 14."""
    driver = make(interfaces=elsewhere)
    unit = await service(driver)
    await until_answered(driver, unit, TCP)
    await driver.runtime.remove(unit)
    successor = driver.again()

    runs = await successor.runs(steps.owner())
    removed = await successor.release(driver.run_id, steps.owner())
    await successor.close()

    assert driver.run_id in runs
    assert removed.leftovers == ()
    assert containers_of(driver) == {}


async def test_without_its_image_no_probe_passes_and_the_answer_says_why(make: Make) -> None:
    """Invariant 1."""
    options = {"helper_image": "partita.invalid/none:1", "pull_policy": "Never"}
    driver = make(options=options, interfaces=elsewhere)
    unit = await service(driver)

    answers = [await driver.runtime.probe_inside(unit, probe, {}) for probe in (HTTP, TCP)]

    for answer in answers:
        assert answer.status is None
        assert "cannot be made" in answer.problem
        assert "partita.invalid/none:1" in answer.problem


@pytest.fixture
def runner_container() -> Iterator[str]:
    """A container of the engine that stands for the one the runner runs in."""
    made = docker("run", "-d", "busybox:1.36", "sleep", "300").strip()
    yield made
    docker("rm", "-f", made)


def interfaces_of(container: str) -> Callable[[], dict[str, frozenset[str]]]:
    def read() -> dict[str, frozenset[str]]:
        text = docker("exec", container, "ip", "addr")
        blocks = re.split(r"^\d+: ", text, flags=re.MULTILINE)[1:]
        return {
            re.split(r"[:@]", block)[0]: frozenset(
                re.findall(r"(?:link/ether|inet) ([0-9a-f.:]+)", block)
            )
            for block in blocks
        }

    return read


@asynccontextmanager
async def runner_in(container: str, make: Make) -> AsyncGenerator[tuple[Driver, Unit]]:
    driver = make(interfaces=interfaces_of(container), host_name=container[:12])
    yield driver, await service(driver)


async def test_a_runner_in_a_container_joins_the_runs_network(
    make: Make, runner_container: str
) -> None:
    async with runner_in(runner_container, make) as (driver, unit):
        endpoint = await driver.runtime.endpoint(unit, 8080)

        assert endpoint is not None
        docker("exec", runner_container, "nc", "-w", "5", endpoint[0], "8080", "-e", "true")
        assert set(containers_of(driver)) == {unit.name}


async def test_it_leaves_the_network_before_the_run_is_removed_also_after_a_crash(
    make: Make, runner_container: str
) -> None:
    """Invariant 14, and 15: the container itself stays."""
    async with runner_in(runner_container, make) as (driver, unit):
        await driver.runtime.endpoint(unit, 8080)
        successor = driver.again()

        removed = await successor.release(driver.run_id, steps.owner())
        await successor.close()

    networks = json.loads(docker("inspect", runner_container))[0]["NetworkSettings"]["Networks"]
    assert (removed.networks, removed.leftovers) == (1, ())
    assert set(networks) == {"bridge"}
