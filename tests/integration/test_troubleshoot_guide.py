"""docs/guides/troubleshoot.md: its commands on a run that failed, and its words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.executions.domain.phrases import failure_phrase
from apps.executions.domain.states import StepReason
from tests.support.guides import GUIDES
from tests.support.up import Up

GUIDE = "troubleshoot.md"
FAILS = """load("@partita/runtime", "test")

test.run("broken", commands = ["echo wanted 1, got 2 >&2", "exit 3"], timeout = "30s")
"""
DETAILS = {  # reason → (detail, exit code) as supervisors report it
    "exit_nonzero": ("exit code 3", 3),
    "test_failures": ("1 of 12 tests failed", 1),
    "timeout": ("still running after 60 s", None),
    "not_ready": ("its readiness probe did not pass within 30 s", None),
    "service_exited": ("ended with exit code 0", 0),
    "oom_killed": ("killed: out of its memory limit", 137),
}


def rows() -> list[tuple[str, str]]:
    """(what people see, reason code) of the table of failed steps."""
    text = (GUIDES / GUIDE).read_text().partition("## A step failed")[2].partition("\n## ")[0]
    return re.findall(r"^\| ([^|]+?) \| `([a-z_]+)` \|", text, re.M)


def test_the_table_is_found() -> None:
    assert len(rows()) > 5


@pytest.mark.parametrize(("words", "reason"), rows())
def test_the_words_are_those_that_people_see(words: str, reason: str) -> None:
    detail, exit_code = DETAILS.get(reason, ("", None))

    assert StepReason(reason)
    assert failure_phrase(reason, detail, exit_code).text == words


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    suite = tmp_path / "suites" / "SUITE"
    suite.mkdir(parents=True)
    (suite / "suite.star").write_text(FAILS)
    settings = {"SUITES_DIR": str(suite.parent), "UP_DEMO": "0", "LOCAL_RUNTIME": "process"}
    up = Up(tmp_path / "up", **settings)
    yield up
    up.end()


@pytest.mark.slow
def test_its_commands_work_on_a_failed_run(up: Up) -> None:
    up.start()
    launched = up.partita("run", "launch", "SUITE", "--watch")
    run_id = up.json("run", "list", "--limit", "1")["executions"][0]["id"]
    blocks = re.findall(r"^```sh\n(.*?)^```$", (GUIDES / GUIDE).read_text(), re.S | re.M)
    said = {}
    for line in "".join(blocks).splitlines():
        command, _, comment = line.partition("#")
        words = shlex.split(command.replace(" RUN", f" {run_id}"))
        answer = up.partita(*words[1:])
        wanted = int(comment.split()[-1]) if "exit code" in comment else 0
        assert answer.returncode == wanted, (line, answer.stdout, answer.stderr)
        said[command.strip()] = answer.stdout

    assert launched.returncode == 10
    assert "broken exited with code 3" in said["./partita run why RUN"]
    assert "wanted 1, got 2" in said["./partita run logs RUN --failed"]
    assert "broken exited with code 3" in said["./partita run list --limit 5"]
    assert len(said) == 9
