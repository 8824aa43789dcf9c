"""Shells in containers: copies of ended units, images without a shell, engines that go away."""

from __future__ import annotations

import contextlib
import io
import json
import secrets
import subprocess
import tarfile
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.runtime.conftest import Driver, shell_node
from tests.support import steps
from tests.support.parts import need
from tests.support.terminals import Terminal, terminal
from tests.support.tls_engine import Authority, behind_tls
from worker.domain import ownership
from worker.domain.runtime import (
    RuntimeOptions,
    RuntimeUnavailable,
    ShellUnavailable,
    Unit,
    UnitState,
)
from worker.domain.shells import ShellRequest
from worker.runtimes.docker.runtime import DockerRuntime
from worker.runtimes.docker.toolbox import ToolboxInvalid, build_archive, is_static

pytestmark = pytest.mark.docker
Make = Callable[..., Driver]


def docker(*words: str, stdin: bytes | None = None) -> str:
    command = ["docker", "-H", need("TEST_DOCKER_HOST", "a Docker engine"), *words]
    done = subprocess.run(command, check=True, capture_output=True, input=stdin, timeout=180)
    return done.stdout.decode()


@pytest.fixture
async def make(tmp_path: Path) -> AsyncGenerator[Make]:
    """Drivers of a run each; what they leave is removed at the end."""
    made: list[Driver] = []

    def create(**options: Any) -> Driver:
        settings = {"state_dir": tmp_path, "installation_id": steps.INSTALLATION, **options}

        def runtime() -> DockerRuntime:
            return DockerRuntime(RuntimeOptions(**settings), unavailable_after_s=0.5)

        made.append(Driver(runtime=runtime(), reopen=runtime, words_to_node=shell_node))
        return made[-1]

    yield create
    for driver in made:
        with contextlib.suppress(RuntimeUnavailable):  # a test took the engine away
            await driver.runtime.release(driver.run_id, steps.owner())
        await driver.runtime.close()


@asynccontextmanager
async def opened(driver: Driver, unit: Unit, *command: str) -> AsyncGenerator[Terminal]:
    request = ShellRequest(shell_id=secrets.token_hex(8), command=command)
    async with terminal(await driver.runtime.open_shell(unit, request)) as at:
        yield at


async def ended(driver: Driver, *words: str, **changes: Any) -> Unit:
    unit = await driver.start(*words, **changes)
    await driver.runtime.wait(unit)
    return unit


def of_run(driver: Driver, kind: str = "container") -> set[str]:
    """The ids of what the engine has with the labels of the run."""
    words = {"container": ["ps", "-aq", "--no-trunc"], "image": ["images", "-aq", "--no-trunc"]}
    command = words.get(kind, [kind, "ls", "-q"])
    return set(docker(*command, "--filter", f"label={ownership.RUN_ID}={driver.run_id}").split())


def inspected(name: str) -> Any:
    return json.loads(docker("inspect", name))[0]


@pytest.fixture(scope="module")
def busybox() -> bytes:
    """The program of the helper image."""
    container = docker("create", "busybox:1.36", "true").strip()
    command = ["docker", "-H", need("TEST_DOCKER_HOST", "a Docker engine"), "cp", "-L"]
    source = [*command, f"{container}:/bin/busybox", "-"]
    raw = subprocess.run(source, check=True, capture_output=True, timeout=180).stdout
    docker("rm", container)
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        file = archive.extractfile("busybox")
        assert file is not None
        return file.read()


def tar_of(**bodies: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, body in bodies.items():
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = 0o755, len(body)
            archive.addfile(entry, io.BytesIO(body))
    return out.getvalue()


@pytest.fixture(scope="module")
def scratch(busybox: bytes) -> Iterator[str]:
    """An image with one program and nothing else, that runs as nobody."""
    name = f"partita-tests:{secrets.token_hex(4)}"
    docker("import", "--change", "USER 65534", "-", name, stdin=tar_of(**{"busybox-app": busybox}))
    yield name
    docker("rmi", name)


async def test_a_copy_is_what_its_step_was_but_for_its_names(make: Make) -> None:
    driver = make()
    unit = await ended(driver, "sh:echo changed >> /etc/motd", env={"GREETING": "hello"})
    before = inspected(unit.id)

    async with opened(driver, unit) as at:
        await at.type("cat /etc/motd\n")
        await at.until("changed")
        (copy,) = [inspected(each) for each in of_run(driver) - {unit.id}]
        listed = [each for each in await driver.runtime.list_resources() if each.id == copy["Id"]]
        assert "copy of the ended step" in at.shell.notice

    kept = ("CapDrop", "ExtraHosts", "Init", "Memory", "MemorySwap", "NanoCpus", "NetworkMode",
            "PidsLimit", "SecurityOpt")  # fmt: skip
    assert {name: copy["HostConfig"][name] for name in kept} == {
        name: before["HostConfig"][name] for name in kept
    }
    assert copy["HostConfig"]["CapDrop"] == ["ALL"]
    assert set(before["Config"]["Env"]) <= set(copy["Config"]["Env"])
    mounts = [
        {(each["Name"], each["Destination"]) for each in one["Mounts"]} for one in (copy, before)
    ]
    assert mounts[0] == mounts[1]
    names = copy["NetworkSettings"]["Networks"][ownership.network_name(driver.run_id)]["Aliases"]
    assert set(names) <= {copy["Id"][:12]}
    assert ownership.STEP not in listed[0].labels
    assert listed[0].labels[ownership.RUN_ID] == driver.run_id
    after = inspected(unit.id)
    assert (after["State"], after["Config"]) == (before["State"], before["Config"])
    assert of_run(driver) == {unit.id}
    assert of_run(driver, "image") == set()


async def test_a_copy_is_in_both_networks_of_an_imported_step(make: Make) -> None:
    driver = make()
    unit = await ended(driver, "out:x", node_id="pay/seed")
    networks = set(inspected(unit.id)["NetworkSettings"]["Networks"])
    assert len(networks) == 2

    async with opened(driver, unit):
        (copy,) = of_run(driver) - {unit.id}
        assert set(inspected(copy)["NetworkSettings"]["Networks"]) == networks


async def test_files_in_a_volume_of_the_image_are_there_and_the_volume_goes_in_the_end(
    make: Make,
) -> None:
    image, container = f"partita-tests:{secrets.token_hex(4)}", f"partita-{secrets.token_hex(4)}"
    docker("create", "--name", container, "busybox:1.36")
    docker("commit", "--change", "VOLUME /data", container, image)
    docker("rm", container)
    driver = make()
    unit = await ended(driver, "sh:echo of the step > /data/file", node={"image": image})
    volumes = [each["Name"] for each in inspected(unit.id)["Mounts"]]

    async with opened(driver, unit) as at:
        await at.type("cat /data/file\n")
        await at.until("of the step")
        await driver.runtime.remove(unit)  # the copy has its volumes still

    assert of_run(driver) == set()
    await driver.runtime.release(driver.run_id, steps.owner())
    left = set(docker("volume", "ls", "-q").split())
    docker("rmi", image)
    assert not left & set(volumes)


async def test_bash_is_preferred_where_the_image_has_it(make: Make) -> None:
    image, container = f"partita-tests:{secrets.token_hex(4)}", f"partita-{secrets.token_hex(4)}"
    pretend = "printf '#!/bin/sh\\necho this is bash; exec sh\\n' > /bin/bash; chmod 755 /bin/bash"
    docker("run", "--name", container, "busybox:1.36", "sh", "-c", pretend)
    docker("commit", container, image)
    docker("rm", container)
    driver = make()
    unit = await driver.start("serve", node={"image": image})

    async with opened(driver, unit) as at:
        await at.until("this is bash")
    await driver.runtime.release(driver.run_id, steps.owner())
    docker("rmi", image)


@pytest.mark.parametrize("runs", [True, False], ids=["running", "ended"])
async def test_an_image_without_a_shell_gets_a_busybox(
    make: Make, scratch: str, *, runs: bool
) -> None:
    driver = make()
    program = ["/busybox-app", "sleep", "600" if runs else "0"]
    node = {"image": scratch, "command": program, "commands": []}
    unit = await driver.start(node=node)
    if not runs:
        await driver.runtime.wait(unit)

    async with opened(driver, unit) as at:
        await at.type("ls -d /busybox-app; id -u\n")
        await at.until("65534")
        await at.type("(trap '' HUP; sleep 6543) & echo st''arted\n")
        await at.until("started")
    async with opened(driver, unit, "/busybox-app", "echo", "a", "program") as at:
        assert await at.to_the_end() == "a program\n"

    if runs:
        assert "6543" not in docker("top", unit.id)
        (found,) = await driver.runtime.find(steps.owner())
        assert found.state is UnitState.RUNNING
    assert of_run(driver) == {unit.id}


async def test_without_shell_and_helper_image_the_person_is_told_what_to_do(
    make: Make, scratch: str
) -> None:
    driver = make(helper_image="partita.invalid/none:1", pull_policy="Never")
    node = {"image": scratch, "command": ["/busybox-app", "sleep", "600"], "commands": []}
    unit = await driver.start(node=node)

    with pytest.raises(ShellUnavailable, match=r"partita\.invalid/none:1 is not present"):
        async with opened(driver, unit):
            pass


async def test_a_helper_image_without_busybox_is_named(make: Make, scratch: str) -> None:
    driver = make(helper_image=scratch)
    node = {"image": scratch, "command": ["/busybox-app", "true"], "commands": []}
    unit = await ended(driver, node=node)

    with pytest.raises(ShellUnavailable, match="set STEP_INIT_IMAGE to an image"):
        async with opened(driver, unit):
            pass

    assert of_run(driver) == {unit.id}
    assert of_run(driver, "image") == set()


async def test_a_reap_of_a_run_with_an_open_shell_leaves_no_image(make: Make) -> None:
    driver = make()
    unit = await ended(driver, "out:x")
    async with opened(driver, unit):
        assert len(of_run(driver, "image")) == 1

        for each in await driver.runtime.list_resources():
            if each.labels[ownership.RUN_ID] == driver.run_id:
                assert await driver.runtime.remove_resource(each)

        assert of_run(driver, "image") == set()
        assert of_run(driver) == set()


async def test_an_image_whose_copy_was_never_made_goes_with_the_run(make: Make) -> None:
    driver = make()
    unit = await ended(driver, "out:x")
    labels = ownership.copy_labels(unit.labels, "lost")
    changes = [f"--change=LABEL {name}={json.dumps(value)}" for name, value in labels.items()]
    docker("commit", *changes, unit.id)
    assert len(of_run(driver, "image")) == 1

    removed = await driver.runtime.release(driver.run_id, steps.owner())

    assert removed.leftovers == ()
    assert of_run(driver, "image") == set()


async def test_a_shell_over_tls_ends_with_an_error_when_the_engine_goes_away(
    make: Make, tmp_path: Path
) -> None:
    host = need("TEST_DOCKER_HOST", "a Docker engine")
    if not host.startswith("unix://"):
        pytest.skip("the engine of the tests has no socket here")
    authority = Authority()
    ours = authority.pair("partita")
    async with behind_tls(host.removeprefix("unix://"), authority, tmp_path) as url:
        driver = make(
            address=url, certificate=ours.certificate + authority.pem, key=ours.key, is_remote=True
        )
        unit = await driver.start("serve")
        shell = await driver.runtime.open_shell(unit, ShellRequest(shell_id="tls"))
        at = Terminal(shell)
        await at.type('echo "<$TERM>"\n')
        await at.until("<xterm-256color>")
    successor = make()
    successor.run_id = driver.run_id  # and removes the run

    with pytest.raises(RuntimeUnavailable):
        await at.to_the_end()
    with pytest.raises(RuntimeUnavailable):
        await shell.close()

    assert await successor.runtime.end_shells(steps.owner()) == 1
    assert (await successor.runtime.find(steps.owner()))[0].state is UnitState.RUNNING


def test_a_program_is_static_if_it_has_no_interpreter(busybox: bytes) -> None:
    assert is_static(busybox)
    assert not is_static(Path("/bin/sh").read_bytes())
    assert not is_static(b"#!/bin/sh\n")
    assert not is_static(b"\x7fELF")


def test_a_busybox_that_needs_libraries_is_refused() -> None:
    dynamic = tar_of(busybox=Path("/bin/sh").read_bytes())

    with pytest.raises(ToolboxInvalid, match="needs libraries"):
        build_archive(dynamic)
    with pytest.raises(ToolboxInvalid, match="no /bin/busybox"):
        build_archive(tar_of(sh=b"x"))
