"""Images from a registry that lets nobody in without a password."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from kernel.pull_credentials import PullCredentials, no_credentials
from tests.contracts.runtime.conftest import Driver, shell_node
from tests.support import servers, steps
from tests.support.parts import need
from worker.domain.runtime import ImageMissing, RuntimeOptions
from worker.runtimes.docker.engine import EngineAddress
from worker.runtimes.docker.images import pull
from worker.runtimes.docker.runtime import DockerRuntime

pytestmark = pytest.mark.docker
Make = Callable[..., Driver]
REPOSITORY = "team/tool"


def engine() -> docker.APIClient:
    return docker.APIClient(base_url=need("TEST_DOCKER_HOST", "a Docker engine"))


def credentials(password: str = servers.REGISTRY_PASSWORD) -> Callable[[str], PullCredentials]:
    return lambda image: PullCredentials(
        host=image.partition("/")[0], username=servers.REGISTRY_USER, secret=password
    )


@pytest.fixture
def image() -> Iterator[str]:
    """In the registry, and not in the engine."""
    name = f"{need('TEST_REGISTRY', 'a registry with a password')}/{REPOSITORY}"
    account = {"username": servers.REGISTRY_USER, "password": servers.REGISTRY_PASSWORD}
    with engine() as client:
        client.tag("busybox:1.36", name, "1")
        said = client.push(name, tag="1", auth_config=account)
        assert "errorDetail" not in said
        client.remove_image(f"{name}:1")
        yield f"{name}:1"
        if client.images(f"{name}:1"):
            client.remove_image(f"{name}:1", force=True)


@pytest.fixture
async def make(tmp_path: Path) -> AsyncGenerator[Make]:
    made: list[Driver] = []

    def create(credentials: Callable[[str], PullCredentials | None], **more: Any) -> Driver:
        runtime = DockerRuntime(
            RuntimeOptions(
                state_dir=tmp_path,
                installation_id=steps.INSTALLATION,
                credentials=credentials,
                **more,
            )
        )
        made.append(Driver(runtime=runtime, reopen=lambda: runtime, words_to_node=shell_node))
        return made[-1]

    yield create
    for driver in made:
        await driver.runtime.release(driver.run_id, steps.owner())
        await driver.runtime.close()


async def _prepare(driver: Driver, image: str) -> list[str]:
    """The pulls that were told."""
    told: list[str] = []

    async def pulling(image: str) -> None:
        told.append(image)

    await driver.runtime.prepare(
        driver.launch("exit:0", node={"image": image}), pulling=pulling, waiting=pulling
    )
    return told


async def test_an_image_is_pulled_with_the_credentials_of_its_registry(
    make: Make, image: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Invariant 19: they are in no log, label or inspection."""
    caplog.set_level(logging.DEBUG)
    driver = make(credentials())

    told = await _prepare(driver, image)
    unit = await driver.start("exit:0", node={"image": image})

    assert told == [image]
    with engine() as client:
        seen = json.dumps([client.inspect_container(unit.id), client.inspect_image(image)])
    assert servers.REGISTRY_PASSWORD not in seen + caplog.text + repr(credentials()(image))


@pytest.mark.parametrize("given", [no_credentials, credentials("wrong-password")])
async def test_without_the_right_credentials_the_image_is_missing(
    make: Make, image: str, given: Callable[[str], PullCredentials | None]
) -> None:
    """Invariant 19: the error does not repeat them."""
    with pytest.raises(ImageMissing) as caught:
        await _prepare(make(given), image)

    assert image in str(caught.value)
    assert "wrong-password" not in str(caught.value)


async def test_a_present_image_is_pulled_again_only_where_the_policy_says_always(
    make: Make, image: str
) -> None:
    driver, eager = make(credentials()), make(credentials(), pull_policy="Always")
    await _prepare(driver, image)

    assert await _prepare(driver, image) == []
    assert await _prepare(eager, image) == [image]


async def test_never_pulls_nothing(make: Make, image: str) -> None:
    with pytest.raises(ImageMissing, match="Never"):
        await _prepare(make(credentials(), pull_policy="Never"), image)


async def test_a_pull_that_does_not_end_is_given_up() -> None:
    """Invariant 5."""
    with servers.silent() as place:
        problem = await pull(EngineAddress(url=f"tcp://{place}"), "a/b:1", None, within_s=0.2)

    assert problem == "not within 0.2 s"


async def test_the_engine_keeps_no_account_for_others(make: Make, image: str) -> None:
    """Invariant 19."""
    await _prepare(make(credentials()), image)
    with engine() as client:
        client.remove_image(image)

    with pytest.raises(ImageMissing):
        await _prepare(make(no_credentials), image)
