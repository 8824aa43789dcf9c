"""docs/guides/first-suite.md, command by command, and a run of each template."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.suites.authoring.suite_files import starters
from tests.support.guides import GUIDES, files_of
from tests.support.parts import need
from tests.support.up import Up

GUIDE = "first-suite.md"
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


def commands_and_files() -> list[tuple[str, int]]:
    """The shell lines of the guide with the exit code that each says, and the files in between.

    A file is a line "write PATH".
    """
    text = (GUIDES / GUIDE).read_text()
    parts = re.findall(r"^```sh\n(.*?)^```$|This is `([^`]+)`:$", text, re.S | re.M)
    found = []
    for block, path in parts:
        lines = block.splitlines() if block else [f"write {path}"]
        codes = [EXIT_CODE.search(line) for line in lines]
        found += [
            (EXIT_CODE.sub("", line).strip(), int(code[1]) if code else 0)
            for line, code in zip(lines, codes, strict=True)
        ]
    return found


def test_the_guide_works_as_printed(up: Up, suites: Path, tmp_path: Path) -> None:
    up.start()
    files = files_of(GUIDE)
    done: dict[tuple[int, str], str] = {}
    for line, wanted in commands_and_files():
        here = line.replace("examples/oci-suites", str(suites))
        if " RUN" in here:
            here = here.replace(
                " RUN", f" {up.json('run', 'list', '--limit', '1')['executions'][0]['id']}"
            )
        words = shlex.split(here)
        if words[0] == "write":
            Path(words[1]).write_text(files[line.removeprefix("write ")])
            continue
        if words[0] == "./partita":
            answer = up.partita(*words[1:])
        else:
            answer = subprocess.run(words, capture_output=True, text=True, check=False)
        assert answer.returncode == wanted, (line, answer.stdout, answer.stderr)
        done[len(done), line] = answer.stdout + answer.stderr

    said = {line: text for (_number, line), text in done.items()}
    assert len(done) == 18
    failed = next(
        text
        for (_number, line), text in done.items()
        if line.endswith("--watch") and "all-done exited with code 1" in text
    )
    assert 'got "JOB NUMBER' in failed
    assert "exit_nonzero" not in failed
    assert "all-done exited with code 1" in said["./partita run why RUN"]
    assert "all-done" in said["./partita run rerun RUN --failed --dry-run"]
    assert "report.xml" in said["./partita run artifacts RUN"]
    assert said["./partita run list --suite jobs"].count("Healthy") == 4


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
