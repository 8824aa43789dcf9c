"""The directories of a container whose image has a user and a WORKDIR of its own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.contracts.runtime.conftest import Driver
from tests.support.docker_engine import docker

pytestmark = pytest.mark.docker
WRITE = "for d in STEP ARTIFACTS WORKSPACE; do eval echo x \\> \\$PARTITA_${d}_DIR/y; done"


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """Busybox as nobody, in /app."""
    name, container = f"partita-tests:{secrets.token_hex(4)}", f"partita-{secrets.token_hex(4)}"
    prepared = "mkdir /app && chmod 777 /app"
    docker("run", "--name", container, "busybox:1.36", "sh", "-c", prepared)
    changes = ["--change", "WORKDIR /app", "--change", "USER 65534"]
    docker("commit", *changes, container, name)
    docker("rm", container)
    yield name
    docker("rmi", name)


@pytest.fixture
def driver(docker_driver: Driver) -> Driver:
    return docker_driver


async def test_commands_start_in_the_directory_of_the_image_and_export_from_it(
    driver: Driver, image: str
) -> None:
    node = {"image": image}
    unit = await driver.start("sh:pwd", f"sh:{WRITE}", "drop:report.xml=here", node=node)

    ended = await driver.runtime.wait(unit)
    found = await driver.runtime.collect(unit, "report.xml")
    place = await driver.texts(unit)

    assert ended.exit_code == 0  # nobody may write in all of the step's directories
    assert place == ["/app\n"]
    assert [(file.path, file.body) for file in found.files] == [("report.xml", b"here")]


async def test_a_script_starts_in_the_directory_of_the_step(driver: Driver, image: str) -> None:
    driver.files = {"tasks/where.sh": "pwd\necho x > report.xml\n"}
    node = {"image": image, "commands": [], "file": "where.sh"}
    unit = await driver.start(node=node)

    place = await driver.texts(unit)
    await driver.runtime.wait(unit)
    found = await driver.runtime.collect(unit, "*.xml")

    assert place == ["/partita/step\n"]
    assert [file.path for file in found.files] == ["report.xml"]
