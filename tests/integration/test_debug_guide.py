"""docs/guides/debug-a-failed-run.md on a real Docker engine: its commands and what they print."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from tests.integration.test_kept_environments import has_nothing
from tests.support.guides import GUIDES, prints
from tests.support.parts import need
from tests.support.processes import ROOT, until
from tests.support.up import Up

pytestmark = pytest.mark.docker
GUIDE = "debug-a-failed-run.md"
FAILED = 10  # the exit code of a watched run that failed


@pytest.fixture
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("debug") / "up"
    engine = need("TEST_DOCKER_HOST", "a Docker engine")
    with Up(folder, UP_DEMO="0", DOCKER_HOST=engine) as up:
        yield up


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield each command of the guide with the lines that it is said to print."""
    text = (GUIDES / GUIDE).read_text()
    for block in re.findall(r"^ *```console\n(.*?)^ *```$", text, re.S | re.M):
        for step in re.split(r"^\$ ", textwrap.dedent(block), flags=re.M)[1:]:
            command, _, expected = step.partition("\n")
            yield command, expected.splitlines()


def type_in(up: Up, command: str) -> subprocess.CompletedProcess[str]:
    program = f"{sys.executable} {ROOT / 'partita_program.py'}"
    known = {key: value for key, value in up.environment.items() if key != "PORT"}
    return subprocess.run(
        ["bash", "-c", command.replace("./partita", program)],
        cwd=ROOT, env=known, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip


def test_the_guide_works_as_printed(up: Up):
    run_id = "RUN"
    for number, (command, expected) in enumerate(commands()):
        done = type_in(up, command.replace("RUN", run_id))
        if number == 0:
            run_id = done.stdout.split()[0]
        code = FAILED if number == 0 else 0
        assert done.returncode == code, (command, done.stdout, done.stderr)
        wanted = [line.replace("RUN", run_id) for line in expected]
        assert prints(done.stdout, wanted), f"$ {command}\n{done.stdout}\nnot\n{expected}"
    assert run_id.startswith("run-")
    until(lambda: has_nothing(up, run_id), within_s=45, what="it is removed", each_s=0.5)
    detail = up.detail(run_id)
    assert (detail["status"], detail["keep"]["keepAliveMs"]) == ("Failed", 3_600_000)
