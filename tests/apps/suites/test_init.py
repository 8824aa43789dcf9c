"""`partita init`: what it writes into a repository, and that it never overwrites."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from django.core.management import call_command

from apps.suites.authoring.suite_files import starters
from kernel.commands import ExitCode
from readers.project_file import read_project_file
from tests.apps.suites.test_imports import typed


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "My Shop"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def init(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        call_command("init", *words)
    return int(ended.value.code or 0)


def written(folder: Path) -> dict[str, str]:
    """Return path → text of all files."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


@pytest.mark.parametrize("template", starters())
def test_a_new_repository_has_a_suite_without_diagnostics(
    repository: Path, settings, capsys, template: str
):
    assert init("--template", template) == 0

    found = read_project_file(repository / "partita.toml")
    assert (found.name, found.suites) == ("my-shop", repository / "suites")
    assert (repository / ".gitignore").read_text() == "/var/\n"
    assert "  partita run launch my-shop --watch\n" in capsys.readouterr().out
    settings.SUITES_DIR = found.suites
    assert [typed("validate"), typed("lint", "--strict"), typed("fmt", "--check")] == [0, 0, 0]


def test_programs_get_the_files(repository: Path, capsys):
    assert init("-o", "json", "--name", "checkout") == 0

    said = json.loads(capsys.readouterr().out)
    assert (said["suite"], said["template"]) == ("checkout", "empty")
    assert sorted(said["files"]) == sorted(written(repository))


def test_a_new_folder_is_made_and_the_way_into_it_is_said(repository: Path, capsys):
    assert init("a b") == 0

    assert (repository / "a b/suites/a-b/suite.star").is_file()
    assert "\n  cd 'a b'\n" in capsys.readouterr().out


@pytest.mark.parametrize("before", ["*.log", "*.log\n"])
def test_a_gitignore_gets_one_line_and_keeps_its_own(repository: Path, before: str):
    (repository / ".gitignore").write_text(before)

    assert init() == 0

    assert (repository / ".gitignore").read_text() == "*.log\n/var/\n"


@pytest.mark.parametrize("line", ["var/", "/var", "var"])
def test_a_gitignore_that_knows_the_data_folder_stays_as_it_is(repository: Path, line: str):
    (repository / ".gitignore").write_text(f"{line}\r\n")

    assert init() == 0

    assert (repository / ".gitignore").read_bytes() == f"{line}\r\n".encode()


@pytest.mark.parametrize("target", ["theirs", "not there"])
def test_a_gitignore_that_leads_elsewhere_is_not_followed(
    repository: Path, capsys, tmp_path: Path, target: str
):
    (tmp_path / "theirs").write_text("*.log\n")
    (repository / ".gitignore").symlink_to(tmp_path / target)

    assert init("-o", "json") == 0

    said = capsys.readouterr()
    assert ".gitignore is a symbolic link and was left as it is: have Git ignore /var/" in said.err
    assert ".gitignore" not in json.loads(said.out)["files"]
    assert (tmp_path / "theirs").read_text() == "*.log\n"
    assert not (tmp_path / "not there").exists()
    assert (repository / "partita.toml").is_file()


def test_a_huge_gitignore_and_one_that_is_no_file_are_not_read(repository: Path, capsys):
    huge = b"x" * 1024 * 1024
    (repository / ".gitignore").write_bytes(huge + b"\n")
    (repository / "part").mkdir()
    os.mkfifo(repository / "part/.gitignore")

    assert init("part") == init() == 0

    said = capsys.readouterr().err
    assert ".gitignore is larger than 1048576 bytes and was left" in said
    assert ".gitignore is not a file and was left" in said
    assert (repository / ".gitignore").stat().st_size == len(huge) + 1


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ("partita.toml", "partita.toml exists: nothing was written; add a suite: partita suite"),
        ("suites/my-shop/notes.md", "suites/my-shop exists: nothing was written; choose another"),
    ],
)
def test_what_is_in_the_way_is_named_and_kept(repository: Path, capsys, there: str, said: str):
    path = repository / there
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    before = written(repository)

    assert init() == ExitCode.CONFLICT

    assert said in capsys.readouterr().err
    assert written(repository) == before


def test_a_folder_of_a_repository_that_has_the_file_is_refused(repository: Path, capsys):
    (repository / "partita.toml").write_text("")

    assert init("services/api") == ExitCode.CONFLICT

    said = capsys.readouterr().err
    assert f"services/api is in the repository of {repository}/partita.toml" in said
    assert not (repository / "services").exists()


def test_a_name_that_no_suite_can_have_is_refused(repository: Path, capsys):
    assert init("--name", "../up") == ExitCode.ERROR

    assert "a name begins with a letter or digit" in capsys.readouterr().err
    assert written(repository) == {}


def test_a_folder_that_cannot_be_written_is_named(repository: Path, capsys):
    (repository / "taken").write_text("a file")

    assert init("taken") == ExitCode.ERROR

    assert "taken: " in capsys.readouterr().err
