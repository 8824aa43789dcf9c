"""docs/guides/first-suite.md, command by command, and a run of each template."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.suites.authoring.suite_files import starters
from tests.support.guides import GUIDES
from tests.support.parts import need
from tests.support.up import Up

EXIT_CODE = re.compile(r"# exit code (\d+)$")
pytestmark = pytest.mark.slow


@pytest.fixture
def suites(tmp_path: Path) -> Path:
    folder = tmp_path / "examples" / "oci-suites"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def up(tmp_path: Path, suites: Path) -> Iterator[Up]:
    settings = {"SUITES_DIR": str(suites), "UP_DEMO": "0", "LOCAL_RUNTIME": "process"}
    up = Up(tmp_path / "up", **settings)
    yield up
    up.end()


def commands() -> list[tuple[str, int]]:
    """The shell lines of the guide, and the exit code that each says."""
    text = (GUIDES / "first-suite.md").read_text()
    lines = "".join(re.findall(r"^```sh\n(.*?)^```$", text, re.S | re.M)).splitlines()
    found = [(EXIT_CODE.sub("", line), EXIT_CODE.search(line)) for line in lines]
    return [(line.strip(), int(match[1]) if match else 0) for line, match in found]


def test_the_guide_works_as_printed(up: Up, suites: Path, tmp_path: Path) -> None:
    up.start()
    done = []
    for line, wanted in commands():
        here = line.replace("examples/oci-suites", str(suites))
        words = shlex.split(here)
        if words[0] == "./partita":
            answer = up.partita(*words[1:])
        else:
            answer = subprocess.run(words, capture_output=True, text=True, check=False)
        assert answer.returncode == wanted, (line, answer.stdout, answer.stderr)
        done.append((line, answer.stdout + answer.stderr))

    assert len(done) == 10
    failed = next(said for line, said in done if line.endswith("--watch") and "all-done" in said
                  and "all-done exited with code 1" in said)  # fmt: skip
    assert 'got "JOB NUMBER' in failed
    assert "exit_nonzero" not in failed


@pytest.mark.docker
@pytest.mark.parametrize("template", starters())
def test_a_new_suite_runs(template: str, tmp_path: Path, suites: Path) -> None:
    engine = {"LOCAL_RUNTIME": "docker", "DOCKER_HOST": need("TEST_DOCKER_HOST", "a Docker engine")}
    up = Up(tmp_path / "up", SUITES_DIR=str(suites), UP_DEMO="0", **engine)
    try:
        up.start()
        made = up.manage("suite", "new", str(suites / "mine"), "--template", template)
        assert made.returncode == 0, made.stderr
        ran = up.partita("run", "launch", "mine", "--watch")
        assert ran.returncode == 0, ran.stdout + ran.stderr
    finally:
        up.end()
