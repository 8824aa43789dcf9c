"""An engine at another socket, or on another host behind TLS."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.contracts.runtime.conftest import Driver, shell_node
from tests.support import steps
from tests.support.parts import need
from tests.support.tls_engine import Authority, behind_tls
from worker.domain.readiness import TcpProbe
from worker.domain.runtime import RuntimeOptions
from worker.runtimes.docker.engine import AddressInvalid
from worker.runtimes.docker.runtime import DockerRuntime

pytestmark = pytest.mark.docker
Options = Callable[..., RuntimeOptions]


@pytest.fixture(autouse=True)
def _no_engine_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")


@pytest.fixture
def socket() -> str:
    host = need("TEST_DOCKER_HOST", "a Docker engine")
    if not host.startswith("unix://"):
        pytest.skip("the engine of the tests has no socket here")
    return host.removeprefix("unix://")


@pytest.fixture
def options(tmp_path: Path) -> Options:
    def made(**changes: Any) -> RuntimeOptions:
        return RuntimeOptions(state_dir=tmp_path, installation_id=steps.INSTALLATION, **changes)

    return made


@asynccontextmanager
async def driven(options: RuntimeOptions) -> AsyncGenerator[Driver]:
    """As from another host: this process is on no network of the engine."""

    def runtime() -> DockerRuntime:
        return DockerRuntime(options, unavailable_after_s=0.5, interfaces=dict)

    driver = Driver(runtime=runtime(), reopen=runtime, words_to_node=shell_node)
    try:
        yield driver
    finally:
        await driver.runtime.release(driver.run_id, steps.owner())
        await driver.runtime.close()


async def _answers(options: RuntimeOptions) -> bool:
    runtime = DockerRuntime(options, unavailable_after_s=0.5)
    try:
        return await runtime.ping()
    finally:
        await runtime.close()


@pytest.mark.parametrize("prefix", ["", "unix://"])
async def test_a_socket_of_the_settings_goes_before_the_environment(
    options: Options, socket: str, prefix: str
) -> None:
    assert await _answers(options(address=f"{prefix}{socket}"))
    assert not await _answers(options())


async def test_the_environment_may_name_an_engine_behind_tls(
    options: Options, socket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Docker's own programs read it; the certificates do not count for a socket."""
    authority = Authority()
    ours = authority.pair("partita")
    for name, text in [("ca", authority.pem), ("cert", ours.certificate), ("key", ours.key)]:
        (tmp_path / f"{name}.pem").write_text(text)
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    async with behind_tls(socket, authority, tmp_path) as url:
        monkeypatch.setenv("DOCKER_HOST", url.replace("https", "tcp"))
        assert await _answers(options())

    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
    assert await _answers(options())


async def test_steps_run_on_an_engine_behind_tls_with_nothing_published(
    options: Options, socket: str, tmp_path: Path
) -> None:
    authority = Authority()
    ours = authority.pair("partita")
    async with behind_tls(socket, authority, tmp_path) as url:
        remote = options(
            address=url,
            certificate=ours.certificate + authority.pem,
            key=ours.key,
            is_remote=True,
        )
        async with driven(remote) as driver:
            node = {"kind": "service", "ports": ["8080"], "commands": ["echo up; sleep 60"]}
            unit = await driver.start(node=node)
            probe = await driver.runtime.probe_inside(unit, TcpProbe(port=8080), {})
            with docker.APIClient(base_url=f"unix://{socket}") as client:
                bound = client.inspect_container(unit.id)["HostConfig"]["PortBindings"]
            code = await driver.runtime.run_inside(unit, ["false"], timeout_s=10)
            await driver.runtime.stop(unit, grace_s=5)

            assert driver.runtime.shared
            assert await driver.texts(unit) == ["up\n"]
            assert code == 1
            assert "refused" in probe.problem
            assert not bound


async def test_an_engine_that_another_authority_vouches_for_is_not_spoken_to(
    options: Options, socket: str, tmp_path: Path
) -> None:
    authority, other = Authority(), Authority("another")
    ours = authority.pair("partita")
    async with behind_tls(socket, authority, tmp_path) as url:
        text = ours.certificate + other.pem
        assert not await _answers(options(address=url, certificate=text, key=ours.key))


async def test_an_engine_that_wants_a_certificate_is_away_without_it(
    options: Options, socket: str, tmp_path: Path
) -> None:
    authority = Authority()
    async with behind_tls(socket, authority, tmp_path) as url:
        assert not await _answers(options(address=url, certificate=authority.pem))


def test_the_key_is_on_no_disk_and_in_no_text(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 19."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    pair = Authority().pair("partita")
    made = options(address="tcp://127.0.0.1:1", certificate=pair.certificate, key=pair.key)

    runtime = DockerRuntime(made)

    assert list(folder.iterdir()) == []
    assert pair.key.splitlines()[1] not in repr(made) + repr(vars(runtime))


@pytest.mark.parametrize(
    "changes",
    [
        {"address": "https://127.0.0.1:1", "certificate": "no-such-pem", "key": "hidden-word"},
        {"address": "ftp://hidden-word"},
        {"address": "tcp://"},
        {"address": "tcp://engine:99999"},
    ],
)
def test_settings_that_name_no_engine_are_refused_without_being_repeated(
    options: Options, changes: dict[str, str]
) -> None:
    """Invariant 19."""
    with pytest.raises(AddressInvalid) as caught:
        DockerRuntime(options(**changes))

    assert "hidden-word" not in json.dumps(str(caught.value))
