"""The guide `use-a-server.md`: each of its commands does what it says."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path

import pytest

from partita_client.command.halves import StoreCommand
from partita_client.command.program import run_words
from tests.support.fake_partita import RUN, TOKEN, FakePartita, summary
from tests.support.guides import GUIDES

GUIDE = (GUIDES / "use-a-server.md").read_text()
BLOCKS = re.findall(r"^```bash\n(.*?)^```$", GUIDE, re.S | re.M)
LINES = [line for block in BLOCKS for line in block.splitlines()]
COMMANDS = [line for line in LINES if line.startswith("partita ")]  # not the installation
PLAN = {
    "rerunOf": RUN, "suiteId": "shop", "profile": "ci.yaml", "backend": "Local",
    "sentence": "2 of 2", "steps": [{"id": "check", "text": "failed"}], "notSelected": [],
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_guide_works(signed_in: FakePartita, monkeypatch, capsys, command: str):
    signed_in.answers[f"POST /api/v1/executions/{RUN}/rerun"] = lambda *_: (200, PLAN)
    signed_in.answers["POST /api/v1/auth/device"] = lambda *_: (
        200,
        {"deviceCode": "d", "userCode": "c", "verificationUri": "u", "expiresIn": 9, "interval": 0},
    )
    signed_in.answers["POST /api/v1/auth/device/token"] = lambda *_: (200, {"token": TOKEN})
    Path("now.yaml").write_text("mode: local\n")
    text, _, _target = command.replace("https://partita.example.com", signed_in.url).partition(
        " > "
    )
    text, _, source = text.partition(" < ")
    monkeypatch.setattr("sys.stdin", io.StringIO(TOKEN) if source else Terminal())

    code = run_words(shlex.split(text)[1:])

    assert not isinstance(code, StoreCommand)
    says_how_it_ended = "--exit-status" in command or "run watch" in command
    wanted = 10 if says_how_it_ended else int("settings diff" in command)
    assert code == wanted, capsys.readouterr().err


class Terminal:
    """A stdin at which a person sits."""

    def isatty(self) -> bool:
        return True


def test_the_python_of_the_guide_runs(fake: FakePartita, capsys, monkeypatch):
    block = re.search(r"^```python\n(.*?)^```$", GUIDE, re.S | re.M)
    assert block
    fake.answers["POST /api/v1/executions"] = lambda *_: (201, summary(RUN))
    text = block[1].replace("https://partita.example.com", fake.url).replace("pat_…", TOKEN)

    exec(compile(text, "guide", "exec"), {})

    assert capsys.readouterr().out.splitlines()[-1] == "Failed check exited with code 3"
