"""The guides "registries" and "share a suite", followed on a registry over TLS with a password."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import guides, registries
from tests.support.packages import program
from tests.support.processes import write_partita
from tests.support.registries import RunningRegistry

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(program("docker-registry") is None, reason="docker-registry is missing"),
]
HOST = "registry.example.com"
DOWN = "# while the registry is down"


@dataclass
class Follower:
    """Somebody in a folder of their own; `stop` takes the registry away."""

    folder: Path
    environment: dict[str, str]
    registry: RunningRegistry
    stack: contextlib.ExitStack

    def write(self, files: dict[str, str], below: str = "") -> None:
        for path, text in files.items():
            place = self.folder / below / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(self.real(text))

    def real(self, text: str) -> str:
        return text.replace(HOST, self.registry.host)

    def run(self, command: str, **environment: str) -> str:
        ended = subprocess.run(
            ["bash", "-c", f"exec 2>&1\n{self.real(command)}"],
            cwd=self.folder, env=self.environment | environment,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return ended.stdout

    def follow(self, guide: str) -> None:
        for command, expected in guides.commands_of(guide):
            if DOWN in command:
                self.stack.close()
            output = self.run(command)
            told = [self.real(line) for line in expected]
            assert guides.prints(output, told), f"$ {command}\n{output}\ninstead of\n{told}"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Follower]:
    authority = registries.certificate(tmp_path / "certificate")
    write_partita(tmp_path)
    (tmp_path / "suites").mkdir()
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "platform_site.settings.test",
        "DB_DRIVER": "sqlite",
        "SQLITE_PATH": str(tmp_path / "store.sqlite3"),
        "DATA_DIR": str(tmp_path / "data"),
        "SUITES_DIR": str(tmp_path / "suites"),
        "PLATFORM_SETTINGS_FILE": str(tmp_path / "configuration.yaml"),
        "REGISTRY_CA_FILE": str(authority.authority),
        "PARTITA_CONFIG_REGISTRY_PASSWORD": registries.PASSWORD,
        "ADMIN_EMAIL": "root@example.org",
        "ADMIN_PASSWORD": "Correct-Horse-1",
        "LOG_LEVEL": "ERROR",
    }
    with contextlib.ExitStack() as stack:
        registry = stack.enter_context(registries.basic(tmp_path / "registry", authority))
        who = Follower(tmp_path, environment, registry, stack)
        who.write(guides.files_of("registries.md"))
        assert who.run("./partita migrate --verbosity 0") == ""
        who.run("./partita settings show")  # reads the file, which is told once
        yield who


def test_the_guide_to_registries_can_be_followed(reader: Follower):
    reader.write(guides.files_of("share-a-suite.md"), below="theirs")
    theirs = str(reader.folder / "theirs" / "suites")
    push = f"./partita suite push greeter {HOST}/core/greeter:1.0.0"
    assert "digest sha256:" in reader.run(push, SUITES_DIR=theirs)

    reader.follow("registries.md")


def test_the_guide_to_sharing_a_suite_can_be_followed(reader: Follower):
    reader.write(guides.files_of("share-a-suite.md"))

    reader.follow("share-a-suite.md")

    copied = reader.folder / "suites" / "mine"
    assert (copied / "metadata.yaml").read_text().startswith("repository: core/greeter")
