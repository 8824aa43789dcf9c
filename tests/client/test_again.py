"""`run again`: what is sent, and how its end is told."""

from __future__ import annotations

import base64
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from partita_client.command.program import run_words
from tests.support.fake_partita import RUN, FakePartita

REPEATS = f"/api/v1/executions/{RUN}/repeats"


@pytest.fixture
def repeats(signed_in: FakePartita) -> dict[str, Any]:
    """What the server says of the repeat, before and after its end."""
    said = {
        "id": "rep-1", "executionId": RUN, "stepId": "check", "state": "succeeded",
        "sentence": "#2 succeeded in 1 s", "finishedAt": "2026-11-24T17:05:33.000Z",
    }  # fmt: skip
    signed_in.answers[f"POST {REPEATS}"] = lambda *_: (201, said)
    signed_in.answers[f"GET {REPEATS}/rep-1"] = lambda *_: (200, said)
    return said


def body_of(fake: FakePartita) -> Any:
    return next(body for method, path, body in fake.asked if (method, path) == ("POST", REPEATS))


def test_a_step_runs_again_with_what_was_typed(signed_in: FakePartita, repeats, capsys):
    words = ["--env", "A=1", "--env", "B=x=y", "--command", "echo hi"]

    assert run_words(["run", "again", RUN, "check", *words]) == 0

    assert capsys.readouterr().out == "rep-1\n"
    assert body_of(signed_in) == {
        "stepId": "check",
        "command": "echo hi",
        "env": {"A": "1", "B": "x=y"},
    }


def test_the_files_of_a_folder_go_along(signed_in: FakePartita, repeats, tmp_path: Path):
    for name in ("suite.star", "tasks/seed.sh", ".git/config", "a/__pycache__/x.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("/etc/passwd")

    assert run_words(["run", "again", RUN, "check", "--files", str(tmp_path)]) == 0

    packed = io.BytesIO(base64.b64decode(body_of(signed_in)["contentBase64"]))
    with tarfile.open(fileobj=packed) as archive:
        assert archive.getnames() == ["suite.star", "tasks/seed.sh"]


@pytest.mark.parametrize("folder", ["nosuch", "empty", "large"])
def test_a_folder_that_cannot_go_along_is_named(
    signed_in: FakePartita, repeats, tmp_path: Path, capsys, monkeypatch, folder: str
):
    monkeypatch.setattr("partita_client.command.run_again._MAX_BYTES", 100)
    (tmp_path / "empty").mkdir()
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "data").write_bytes(bytes(range(256)) * 40)

    assert run_words(["run", "again", RUN, "check", "--files", str(tmp_path / folder)]) == 2

    assert f"--files {tmp_path / folder}" in capsys.readouterr().err
    assert signed_in.asked == []


@pytest.mark.parametrize(
    ("state", "reason", "code"),
    [
        ("succeeded", "", 0),
        ("failed", "exit_nonzero", 10),
        ("failed", "agent_lost", 11),
        ("canceled", "", 12),
    ],
)
def test_a_watched_repeat_ends_as_a_run_does(
    signed_in: FakePartita, repeats, capsys, state: str, reason: str, code: int
):
    repeats |= {"state": state, "reason": reason}

    assert run_words(["run", "again", RUN, "check", "--watch"]) == code

    out = capsys.readouterr().out
    assert "line 3" in out
    assert out.endswith(f"the verdict of {RUN} stays as it was\n")
