"""A container that is created ahead for the next attempt of a step that people run again."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace

import pytest

from tests.contracts.runtime.conftest import Driver
from tests.support import steps
from tests.support.docker_engine import containers, docker
from worker.domain.runtime import Launch, Unit

pytestmark = pytest.mark.docker
LOOK = "sh:cat tasks/hello.sh"


async def only(driver: Driver, *names: str) -> dict[str, str]:
    """Wait until the engine has these containers of the run; they go when nobody waits."""
    async with asyncio.timeout(30):
        while (found := containers(driver.run_id)).keys() != set(names):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)
    return found


@pytest.fixture
def driver(docker_driver: Driver) -> Driver:
    return docker_driver


async def ended(driver: Driver, launch: Launch) -> Unit:
    unit = await driver.runtime.start(launch)
    await driver.runtime.wait(unit)
    return unit


async def test_what_stands_by_becomes_the_unit_of_the_next_attempt(driver: Driver) -> None:
    first = await ended(driver, driver.launch(LOOK))
    second = driver.launch(LOOK, attempt=2)
    await driver.runtime.stand_by(second)
    before = await only(driver, "step-a1", "step-standby")
    found = await driver.runtime.find(steps.owner())

    unit = await ended(driver, second)

    assert [each.id for each in found] == [first.id]  # what stands by is no unit yet
    assert unit.id == before["step-standby"]
    assert await driver.texts(unit) == ["echo hello\n"]
    assert (await only(driver, "step-a2"))["step-a2"] == unit.id
    [again] = await driver.again().find(steps.owner())
    assert (again.id, again.name) == (unit.id, second.name)


@pytest.mark.parametrize("what", ["command", "variable", "files"])
async def test_another_launch_gets_a_container_of_its_own(driver: Driver, what: str) -> None:
    await ended(driver, driver.launch("env:A"))
    await driver.runtime.stand_by(driver.launch("env:A", attempt=2, env={"A": "old"}))
    asked = driver.launch("env:A", attempt=2, env={"A": "old"})
    if what == "command":
        asked = driver.launch("out:other", attempt=2, env={"A": "old"})
    elif what == "variable":
        asked = driver.launch("env:A", attempt=2, env={"A": "new"})
    else:
        other = steps.content({"tasks/hello.sh": "other", "more.txt": "x"})
        asked = replace(driver.launch("sh:ls", attempt=2, env={"A": "old"}), step_files=other)

    unit = await ended(driver, asked)

    expected = {"command": ["other\n"], "variable": ["new\n"], "files": ["more.txt\n", "tasks\n"]}
    assert await driver.texts(unit) == expected[what]
    await only(driver, "step-a2")


async def test_files_that_are_given_come_with_the_attempt(driver: Driver) -> None:
    """They are other ones each time: what stands by after such an attempt has none yet."""
    await ended(driver, driver.launch("sh:ls"))
    old, new = (steps.content({name: "x"}) for name in ("old.txt", "new.txt"))
    await driver.runtime.stand_by(replace(driver.launch("sh:ls", attempt=2), step_files=old))
    before = await only(driver, "step-a1", "step-standby")

    unit = await ended(driver, replace(driver.launch("sh:ls", attempt=2), step_files=new))

    assert unit.id == before["step-standby"]
    assert await driver.texts(unit) == ["new.txt\n"]


async def test_an_image_that_was_built_again_is_used(driver: Driver) -> None:
    image, container = f"partita-tests:{secrets.token_hex(4)}", f"partita-{secrets.token_hex(4)}"
    docker("tag", "busybox:1.36", image)
    node = {"image": image}
    await ended(driver, driver.launch("sh:cat /made || true", node=node))
    next_one = driver.launch("sh:cat /made || true", attempt=2, node=node)
    await driver.runtime.stand_by(next_one)
    docker("run", "--name", container, "busybox:1.36", "sh", "-c", "echo anew > /made")
    docker("commit", container, image)
    docker("rm", container)

    await driver.runtime.prepare(next_one, pulling=_never, waiting=_never)
    unit = await ended(driver, next_one)

    assert await driver.texts(unit) == ["anew\n"]
    await driver.runtime.release(driver.run_id, steps.owner())
    docker("rmi", image)


async def _never(image: str) -> None:
    raise AssertionError(f"{image} is pulled")


async def test_a_runner_that_starts_anew_uses_nothing_that_it_does_not_know(driver: Driver) -> None:
    await ended(driver, driver.launch("out:one"))
    await driver.runtime.stand_by(driver.launch("out:two", attempt=2))
    before = await only(driver, "step-a1", "step-standby")

    driver.runtime = driver.again()
    unit = await ended(driver, driver.launch("out:two", attempt=2))

    assert unit.id not in before.values()
    assert await driver.texts(unit) == ["two\n"]
    await only(driver, "step-a2")


async def test_one_that_an_earlier_runner_left_gives_way(driver: Driver) -> None:
    await ended(driver, driver.launch("out:one"))
    await driver.runtime.stand_by(driver.launch("out:two", attempt=2))
    before = await only(driver, "step-a1", "step-standby")

    driver.runtime = driver.again()
    await ended(driver, driver.launch("out:other", node_id="other"))
    await driver.runtime.stand_by(driver.launch("out:two", attempt=2))

    after = await only(driver, "step-a1", "step-standby", "other-a1")
    assert after["step-standby"] != before["step-standby"]


async def test_a_runner_that_was_killed_behind_the_rename_starts_the_same_container(
    driver: Driver,
) -> None:
    await ended(driver, driver.launch("out:one"))
    second = driver.launch(LOOK, attempt=2)
    await driver.runtime.stand_by(second)
    before = await only(driver, "step-a1", "step-standby")
    docker("rename", f"partita-{driver.run_id}-step-standby", second.name)

    driver.runtime = driver.again()
    unit = await ended(driver, second)

    assert unit.id == before["step-standby"]
    assert await driver.texts(unit) == ["echo hello\n"]


async def test_a_run_has_one_that_stands_by(driver: Driver) -> None:
    for name in ("one", "two"):
        await ended(driver, driver.launch("out:x", node_id=name))
        await driver.runtime.stand_by(driver.launch("out:x", node_id=name, attempt=2))

    await only(driver, "one-a1", "two-a1", "two-standby")


async def test_somebody_may_have_removed_it(driver: Driver) -> None:
    await ended(driver, driver.launch("out:one"))
    await driver.runtime.stand_by(driver.launch("out:two", attempt=2))
    docker("rm", f"partita-{driver.run_id}-step-standby")

    unit = await ended(driver, driver.launch("out:two", attempt=2))

    assert await driver.texts(unit) == ["two\n"]


async def test_nothing_stands_by_for_a_run_that_is_released(driver: Driver) -> None:
    await ended(driver, driver.launch("out:one"))
    second = driver.launch("out:two", attempt=2)
    await driver.runtime.stand_by(second)

    released, _ = await asyncio.gather(
        driver.runtime.release(driver.run_id, steps.owner()), driver.runtime.stand_by(second)
    )

    assert not released.leftovers
    assert containers(driver.run_id) == {}
    label = f"label=partita.run_id={driver.run_id}"
    assert docker("volume", "ls", "-q", "--filter", label) == ""


async def test_an_earlier_attempt_that_runs_is_removed_first(driver: Driver) -> None:
    first = await driver.start("serve")

    second = await driver.start("out:second", attempt=2)

    assert first.id not in containers(driver.run_id).values()
    assert [each.id for each in await driver.runtime.find(steps.owner())] == [second.id]


async def test_a_volume_that_the_engine_makes_anew_still_belongs_to_its_run(driver: Driver) -> None:
    first = await ended(driver, driver.launch("out:one"))
    docker("rm", "-v", first.id)
    docker("volume", "rm", f"partita-ws-{driver.run_id}")

    await driver.runtime.stand_by(driver.launch("out:two", attempt=2))

    label = f"label=partita.run_id={driver.run_id}"
    named = docker("volume", "ls", "-q", "--filter", label).split()
    assert f"partita-ws-{driver.run_id}" in named
