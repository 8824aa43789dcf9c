"""`partita` as somebody types it: help, version, verbs, exit codes, another data folder."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command, find_commands, load_command_class

from kernel.commands import ExitCode
from kernel.version import VERSION
from platform_site import command_line
from platform_site.settings import embedded
from tests.support.processes import ROOT

HOMES = {
    command: app
    for folder in sorted(ROOT.glob("*/*/management"))
    if folder.parts[-3] in ("apps", "sync_stack")
    for app in [f"{folder.parts[-3]}.{folder.parts[-2]}"]
    for command in find_commands(str(folder))
}


def test_the_help_names_every_command_and_no_other():
    named = [name for group in command_line.COMMANDS.values() for name in group]

    assert sorted(named) == sorted(HOMES)


@pytest.mark.parametrize("words", [[], ["help"], ["--help"], ["-h"]])
def test_help_is_the_list_of_commands(words: list[str]):
    said = command_line.answer(words) or ""

    assert said.startswith("usage: partita COMMAND")
    assert "compilemessages" not in said


@pytest.mark.parametrize("words", [["version"], ["--version"]])
def test_the_version_is_that_of_partita(words: list[str]):
    done = subprocess.run(
        [sys.executable, "manage.py", *words], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout == f"partita {VERSION}\n"


@pytest.mark.parametrize("words", [["suite"], ["help", "suite"], ["help", "--all"], ["migrate"]])
def test_everything_else_is_for_the_commands(words: list[str]):
    assert command_line.answer(words) is None


def test_a_former_name_is_answered_with_the_command_of_now():
    done = subprocess.run(
        [sys.executable, "manage.py", "sync_approve_prune", "x"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert done.stderr.endswith("next: partita sync approve-prune\n")


WITH_VERBS = sorted({"suite", "profile", "mock", "settings"})


@pytest.mark.parametrize("name", WITH_VERBS)
def test_a_command_without_its_verb_lists_them(name: str, capsys):
    with pytest.raises(SystemExit) as ended:
        call_command(name)

    assert ended.value.code == ExitCode.USAGE
    said = capsys.readouterr().err
    assert f"{name}: name a verb: " in said
    assert said.count(", ") >= 1


@pytest.mark.parametrize("name", sorted(HOMES))
def test_help_leaves_the_options_of_django_out(name: str):
    parser = load_command_class(HOMES[name], name).create_parser("partita", name)

    text = parser.format_help()
    assert text.startswith(f"usage: partita {name}")
    assert "--pythonpath" not in text
    assert "exit codes:" in text


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        (["run"], "run"),
        (["run", "list", "-o", "json"], "run list"),
        (["help", "run"], "run"),
        (["worker", "status"], "worker status"),
        (["mock", "state", "shop"], "mock state"),
    ],
)
def test_what_a_server_answers_is_not_beside_the_store(words: list[str], typed: str):
    done = subprocess.run(
        [sys.executable, "manage.py", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert done.stderr == (
        f"error: `{typed}` asks a server, which knows who you are\n"
        f"next: partita {typed} (`partita up` starts a server here)\n"
    )


def test_the_file_verbs_of_a_noun_that_asks_a_server_stay():
    assert command_line.refusal(["mock", "serve", "shop"]) == ""
    assert command_line.refusal(["suite", "list"]) == ""


@pytest.fixture
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("DB_DRIVER", raising=False)


@pytest.fixture
def running_up(tmp_path: Path, _home: None) -> Iterator[Path]:
    """The data folder of an `up` that holds its lock, as long as the test lasts."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / embedded.LISTENER_FILE_NAME).write_text("PUBLIC_API_URL=http://localhost:8190\n")
    embedded.note_data_dir(folder)
    with (folder / embedded.LOCK_FILE_NAME).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def test_a_command_with_another_folder_names_the_up_that_runs(running_up: Path, tmp_path: Path):
    with pytest.raises(ImproperlyConfigured) as refusal:
        embedded.refuse_other_folder(tmp_path / "var")

    said = str(refusal.value)
    assert f"DATA_DIR={running_up}  (http://localhost:8190)" in said
    assert f"DATA_DIR={tmp_path / 'var'} holds no data" in said


def test_a_command_that_names_its_store_is_let_through(running_up: Path, tmp_path, monkeypatch):
    monkeypatch.setenv("DB_DRIVER", "postgres")

    embedded.refuse_other_folder(tmp_path / "var")


def test_a_command_on_the_folder_of_an_up_is_let_through(running_up: Path):
    (running_up / embedded.FILE_NAME).write_text("DB_DRIVER=sqlite\n")

    embedded.refuse_other_folder(running_up)


@pytest.mark.usefixtures("_home")
def test_an_up_that_ended_is_forgotten(tmp_path: Path):
    ended = tmp_path / "ended"
    ended.mkdir()
    (ended / embedded.LOCK_FILE_NAME).touch()
    embedded.note_data_dir(ended)

    assert embedded.running_ups() == []
    embedded.refuse_other_folder(tmp_path / "var")


@pytest.mark.usefixtures("_home")
def test_a_home_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))

    embedded.note_data_dir(tmp_path)

    assert embedded.running_ups() == []
