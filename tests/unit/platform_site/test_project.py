"""What partita.toml of the working folder sets, and what it leaves alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from manage import suites_folder
from platform_site.settings import project
from readers.project_file import ProjectFileInvalid, project_of_working_folder

NAMES = ("DATA_DIR", "SUITES_DIR", "MODULES_DIR", "PLATFORM_SETTINGS_FILE", "PROFILES_FILE")

ADDRESSES = ("MONGO_URI", "MONGO_URI_FILE", "POSTGRES_DSN", "POSTGRES_DSN_FILE")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in whose folder `suites` a command runs, without any variable."""
    for name in (*NAMES, "DB_DRIVER", *ADDRESSES):
        monkeypatch.setenv(name, "")
    (tmp_path / ".git").mkdir()
    (tmp_path / "suites").mkdir()
    (tmp_path / "partita.toml").write_text('modules = "mods"\n')
    monkeypatch.chdir(tmp_path / "suites")
    monkeypatch.setattr(sys, "argv", ["partita", "suite", "list"])
    return tmp_path


def fill() -> dict[str, str]:
    found = project_of_working_folder()
    assert found
    project.fill_environment(found)
    return {name: os.environ[name] for name in NAMES}


def test_paths_are_below_the_folder_of_the_file_in_each_folder(repository: Path):
    assert fill() == {
        "DATA_DIR": f"{repository}/var",
        "SUITES_DIR": f"{repository}/suites",
        "MODULES_DIR": f"{repository}/mods",
        "PLATFORM_SETTINGS_FILE": f"{repository}/configuration.yaml",
        "PROFILES_FILE": f"{repository}/svc-profiles.yaml",
    }


def test_mock_serve_looks_for_ids_there_without_the_settings(repository: Path):
    assert suites_folder() == repository / "suites"


@pytest.mark.usefixtures("repository")
def test_the_environment_wins(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DATA_DIR", "/srv/partita")
    monkeypatch.setenv("SUITES_DIR", "/srv/suites")

    filled = fill()

    assert (filled["DATA_DIR"], filled["SUITES_DIR"]) == ("/srv/partita", "/srv/suites")


def test_without_the_file_nothing_is_found(repository: Path):
    (repository / "partita.toml").unlink()

    assert project_of_working_folder() is None


def test_a_folder_of_suites_that_is_not_there_is_an_error_with_its_line(repository: Path):
    (repository / "partita.toml").write_text('name = "shop"\nsuites = "siutes"\n')

    with pytest.raises(ProjectFileInvalid, match=r"partita\.toml:2: suites = 'siutes', and there"):
        fill()


@pytest.mark.parametrize("words", [["suite", "new", "x"], ["init"]])
def test_what_makes_the_folder_of_suites_does_not_need_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
):
    (repository / "partita.toml").write_text('suites = "later"\nmodules = "mods"\n')
    monkeypatch.setattr(sys, "argv", ["partita", *words])

    assert fill()["SUITES_DIR"] == f"{repository}/later"


@pytest.mark.parametrize(("given", "named"), [("", "sqlite"), ("postgres", "postgres")])
@pytest.mark.usefixtures("repository")
def test_the_store_is_that_of_up_unless_one_is_named(
    monkeypatch: pytest.MonkeyPatch, given: str, named: str
):
    monkeypatch.setenv("DB_DRIVER", given)

    project.name_own_store()

    assert os.environ["DB_DRIVER"] == named


@pytest.mark.parametrize("name", ADDRESSES)
@pytest.mark.usefixtures("repository")
def test_an_operator_who_sets_the_address_of_a_store_gets_no_other(
    monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setenv(name, "/run/secrets/store")

    project.name_own_store()

    assert os.environ["DB_DRIVER"] == ""
