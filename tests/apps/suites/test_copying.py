"""`manage.py suite fork` and `pull`, as the catalog's pullCommand and forkCommand spell them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import execute_from_command_line

from apps.suites import api
from tests.support.processes import ROOT

FILES = {
    "suite.star": 'task.run("t", file="t.sh")\n',
    "tasks/t.sh": "#!/bin/sh\necho hi\n",
    "README.md": "# Mine\n",
}


def typed(command: str) -> int:
    """Its exit code; `partita` is `manage.py`."""
    with pytest.raises(SystemExit) as ended:
        execute_from_command_line(command.split())
    return int(ended.value.code or 0)


def test_the_catalogs_commands_work_as_printed(workspace, tmp_path, monkeypatch, capsys):
    workspace.add("mine", FILES)
    definition = api.get_definition("mine")
    monkeypatch.chdir(tmp_path)

    assert typed(definition["pullCommand"]) == 0
    assert (
        f"mine is already in the workspace ({definition['contentDigest']})"
        in capsys.readouterr().out
    )
    assert typed(definition["forkCommand"]) == 0

    copied = tmp_path / "mine"
    written = {str(path.relative_to(copied)) for path in copied.rglob("*") if path.is_file()}
    assert written == set(FILES)
    assert all((copied / path).read_text() == text for path, text in FILES.items())
    assert (copied / "tasks" / "t.sh").stat().st_mode & 0o111
    assert not (copied / "README.md").stat().st_mode & 0o111


@pytest.mark.slow
@pytest.mark.parametrize("linked", [False, True])
def test_the_program_that_the_catalog_names_exists(tmp_path: Path, linked):
    """`make install` and the image have a link to it; it is run from whatever folder."""
    called = ROOT / "partita"
    if linked:
        called = tmp_path / "partita"
        called.symlink_to(ROOT / "partita")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [called, "suite", "fork", "--help"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "suite fork [-h]" in done.stdout
    assert "install: $(VENV)/.runtime $(BIN)/partita" in (ROOT / "Makefile").read_text()
    assert "!partita" in (ROOT / ".dockerignore").read_text().splitlines()
    assert "/usr/local/bin/partita" in (ROOT / "Dockerfile").read_text()


def test_a_fork_overwrites_nothing(workspace, tmp_path, capsys):
    workspace.add("mine", FILES)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "work.txt").write_text("hours of it")

    assert typed(f"manage.py suite fork mine {tmp_path}/taken") == 5

    assert "exists and is not empty" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["work.txt"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("verb", ["pull nosuch", "fork nosuch {}/new"])
def test_a_suite_that_is_not_here_is_not_found(workspace, tmp_path: Path, capsys, verb):
    assert typed(f"manage.py suite {verb.format(tmp_path)}") == 3

    assert "there is no suite 'nosuch'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_broken_package_is_not_forked(workspace, tmp_path: Path, capsys):
    """Its files were not all read."""
    workspace.add("odd", {**FILES, "metadata.yaml": "title: ["})

    assert typed(f"manage.py suite fork odd {tmp_path}/new") == 1

    assert "package_invalid" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_place_that_cannot_be_written_is_named(workspace, capsys):
    workspace.add("mine", FILES)

    assert typed("manage.py suite fork mine /proc/new/mine") == 1

    assert "/proc/new/mine" in capsys.readouterr().err
