"""partita.toml: its keys, its errors with their lines, and where it is looked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from readers.project_file import (
    MAX_BYTES,
    ProjectFileInvalid,
    find_project_file,
    read_project_file,
)

WHOLE = """\
# of the shop
name = "shop"
suites = "tests/suites"
modules = "tests/modules"
server = "https://partita.example.org/"
"""
SOMEBODY = 12345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    (folder / "suites" / "first").mkdir(parents=True)
    return folder


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "partita.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refusal(folder: Path, text: str | bytes) -> str:
    path = write(folder, text)
    with pytest.raises(ProjectFileInvalid) as refused:
        read_project_file(path)
    return str(refused.value).replace(str(path), "FILE")


def test_every_key_is_read_and_folders_are_below_that_of_the_file(repository: Path):
    found = read_project_file(write(repository, WHOLE))

    assert (found.name, found.server) == ("shop", "https://partita.example.org")
    assert found.suites == repository / "tests" / "suites"
    assert found.modules == repository / "tests" / "modules"
    assert found.place_of("modules") == f"{repository}/partita.toml:4"


def test_an_empty_file_has_its_defaults(repository: Path):
    found = read_project_file(write(repository, ""))

    assert (found.name, found.suites) == ("shop", repository / "suites")
    assert (found.modules, found.server) == (None, "")
    assert found.place_of("suites") == f"{repository}/partita.toml"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('\nsuite = "s"', 'FILE:2: "suite" is not a key of this file; did you mean suites?'),
        ("[modlues]\na = 1", 'FILE:1: "modlues" is not a key of this file; did you mean modules?'),
        ("x.y = 1", 'FILE:1: "x" is not a key of this file; known: name, suites, modules, server'),
        ('suites = ["a", "b"]', 'FILE:1: suites must be a string, such as suites = "suites"'),
        ('suites = ""', 'FILE:1: suites is empty; write suites = "suites", or leave it out'),
        ('suites = "/srv"', "FILE:1: suites = '/srv' must be a folder below that of"),
        ('modules = "../m"', "FILE:1: modules = '../m' must be a folder below that of"),
        ('name = "my shop"', "FILE:1: name = 'my shop' must begin with a letter or digit"),
        (f'name = "{"a" * 2000}"', "FILE:1: name is longer than 1024 characters"),
        ('server = "partita"', "FILE:1: server must be an address such as https://partita."),
        ('server = "http://h:x"', "FILE:1: server must be an address"),
        ('server = "http://ann:secret@h"', "FILE:1: server must be an address"),
        ("name = shop", "FILE:1:8: this is not TOML: Invalid value"),
        ('name = "a"\nname = "b"', "FILE:2: this is not TOML: Cannot overwrite a value"),
        (b'name = "a"\nserver = "\xff"', "FILE:2: the file is not UTF-8"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(repository: Path, text: str | bytes, said: str):
    assert refusal(repository, text).startswith(said)


def test_a_file_that_is_too_large_is_refused_unread(repository: Path):
    too_much = b"#" * (MAX_BYTES + 1)

    assert refusal(repository, too_much) == "FILE: the file is larger than 64 KiB"


def test_no_secret_of_an_address_is_shown(repository: Path):
    assert "secret" not in refusal(repository, 'server = "http://ann:secret@h"')


def test_it_is_found_from_every_folder_below(repository: Path):
    path = write(repository, "")

    assert find_project_file(repository) == path
    assert find_project_file(repository / "suites" / "first") == path


def test_the_search_ends_at_the_root_of_a_git_repository(repository: Path):
    write(repository.parent, "")
    (repository / ".git").mkdir()

    assert find_project_file(repository / "suites") is None
    assert find_project_file(repository.parent) == repository.parent / "partita.toml"


def test_the_search_ends_at_home(repository: Path):
    write(repository.parent, "")

    assert find_project_file(repository / "suites", home=repository) is None


@needs_root
def test_the_search_ends_where_a_folder_belongs_to_somebody_else(repository: Path):
    write(repository.parent, "")
    os.chown(repository.parent, SOMEBODY, -1)

    assert find_project_file(repository / "suites") is None


@needs_root
def test_a_file_that_somebody_else_put_into_a_folder_above_is_refused(repository: Path):
    os.chown(write(repository, ""), SOMEBODY, -1)

    with pytest.raises(ProjectFileInvalid, match="belong to different users"):
        find_project_file(repository / "suites")
    assert find_project_file(repository) == repository / "partita.toml"
