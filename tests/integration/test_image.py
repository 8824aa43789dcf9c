"""The image of the Dockerfile, as `docker run` starts it: no rights, nothing to write on, `up`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from kernel.version import VERSION
from release.bill_of_materials import REQUIREMENTS, read_pins
from tests.support.docker_engine import docker
from tests.support.images import partita_image
from tests.support.parts import need
from tests.support.processes import until
from tests.support.servers import free_port

pytestmark = [pytest.mark.docker, pytest.mark.slow]
READ_ONLY = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL")
START_S = 120
INSTALLED = """
from importlib.metadata import distributions
print(*sorted({each.name.lower().replace("_", "-").replace(".", "-") for each in distributions()}))
"""


@pytest.fixture(scope="module")
def image() -> str:
    return partita_image()


class Container:
    """`partita up` in a container of the image; `more`: further words of `docker run`."""

    def __init__(self, image: str, *more: str) -> None:
        self.port = free_port()
        published = ("-p", f"127.0.0.1:{self.port}:8090", "-v", "/data")
        words = ("run", "-d", "--rm", *READ_ONLY, *published, *more, image, "partita", "up")
        self.id = docker(*words).strip()

    def said(self) -> str:
        return docker("logs", self.id)

    def hears(self, words: str) -> str:
        return until(
            lambda: said if words in (said := self.said()) else None,
            within_s=START_S, what=self.said, each_s=0.5,
        )  # fmt: skip

    def partita(self, *words: str) -> str:
        return docker("exec", self.id, "partita", *words)

    def status_of_the_demo(self) -> str:
        found = re.search(r"/executions/(run-[0-9a-f]+)", self.hears("serving until Ctrl-C"))
        assert found
        return str(json.loads(self.partita("run", "show", found[1], "-o", "json"))["status"])


@pytest.fixture
def running(image: str) -> Iterator[list[Container]]:
    """The containers that a test starts; they are removed at its end."""
    made: list[Container] = []
    yield made
    for each in made:
        docker("rm", "-f", "-v", each.id)


def test_it_has_no_rights_and_says_what_it_is(image: str):
    [found] = json.loads(docker("image", "inspect", image))

    assert found["Config"]["User"] == "10001:10001"
    labels = found["Config"]["Labels"]
    assert labels["org.opencontainers.image.version"] == VERSION
    assert labels["org.opencontainers.image.revision"]
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"


def test_its_bill_of_materials_is_what_is_installed(image: str):
    run = ("run", "--rm", *READ_ONLY, image)
    document = json.loads(docker(*run, "cat", "/opt/partita/sbom.cdx.json"))
    listed = {each["name"]: each for each in document["components"]}
    installed = docker(*run, "python", "-c", INSTALLED).split()

    assert sorted(listed) == installed
    for pin in read_pins(REQUIREMENTS.read_text()):
        if pin.name in listed:  # the Python of the image may be another one
            assert {each["content"] for each in listed[pin.name]["hashes"]} == set(pin.hashes)


def test_its_commands_need_no_place_to_write(image: str):
    run = ("run", "--rm", *READ_ONLY, image, "partita")

    assert docker(*run, "version") == f"partita {VERSION}\n"
    assert "hello" in docker(*run, "suite", "list")
    assert "wrote" in docker(*run, "init", "/tmp/shop", "--template", "web")


def test_up_without_an_engine_runs_the_first_suite_and_says_what_is_missing(
    image: str, running: list[Container]
):
    running.append(Container(image))

    assert running[0].status_of_the_demo() == "Healthy", running[0].said()
    said = running[0].said()
    assert "the container runtime docker does not answer" in said
    assert "those that need an image fail" in said
    assert httpx.get(f"http://localhost:{running[0].port}/healthz", timeout=30).status_code == 200


def test_up_with_the_socket_of_an_engine_runs_steps_as_containers(
    image: str, running: list[Container]
):
    socket = Path(need("TEST_DOCKER_HOST", "a Docker engine").removeprefix("unix://"))
    group = str(socket.stat().st_gid)
    mounted = ("-v", f"{socket}:/var/run/docker.sock", "--group-add", group)
    running.append(Container(image, *mounted))

    assert running[0].status_of_the_demo() == "Healthy", running[0].said()
    assert "does not answer" not in running[0].said()
