"""The client's path: the standard library alone, no Django, and few of its modules."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.fake_partita import TOKEN, FakePartita
from tests.support.processes import ROOT

PROGRAM = """
import json, sys
from partita_client.command.program import run_words
code = run_words(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""


def loaded_by(fake: FakePartita, *words: str) -> tuple[int, list[str]]:
    environment = {"PARTITA_URL": fake.url, "PARTITA_TOKEN": TOKEN, "HOME": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM, *words],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    code, names = json.loads(done.stderr.splitlines()[-1])
    return code, names


@pytest.mark.parametrize(
    "words", [("run", "list"), ("suite", "list"), ("doctor",), ("whoami",), ("sync", "--help")]
)
def test_a_command_loads_the_standard_library_alone(fake: FakePartita, words: tuple[str, ...]):
    code, names = loaded_by(fake, *words)

    tops = {name.partition(".")[0] for name in names}
    others = tops - set(sys.stdlib_module_names) - {"__main__"}
    assert code == 0
    assert others == {"partita_client", "kernel", "readers"}
    assert {name for name in names if name.startswith("kernel.")} == {
        "kernel.durations", "kernel.exit_codes", "kernel.version",
    }  # fmt: skip
    assert {name for name in names if name.startswith("readers.")} == {"readers.project_file"}


def test_run_list_loads_no_large_module_that_it_does_not_need(fake: FakePartita):
    _, names = loaded_by(fake, "run", "list")

    large = {"asyncio", "concurrent", "logging", "multiprocessing", "unittest", "xml", "webbrowser"}
    assert {name for name in names if name in large} == set()
    assert "urllib.request" not in names
    assert "partita_client.command.resources" not in names
    assert not [name for name in names if name.startswith("partita_client.ci")]


def test_it_costs_little(fake: FakePartita):
    """Five times what it takes on a quiet machine (0.1 s of CPU), as this one is not."""
    environment = {"PARTITA_URL": fake.url, "PARTITA_TOKEN": TOKEN, "HOME": "/nonexistent"}
    done = subprocess.run(
        ["bash", "-c", f"TIMEFORMAT='%U %S'; time {sys.executable} partita_program.py run list"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip

    user, system = map(float, done.stderr.splitlines()[-1].split())
    assert user + system < 0.75
