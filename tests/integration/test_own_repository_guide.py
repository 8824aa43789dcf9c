"""docs/guides/own-repository.md, command by command, in a repository that is not a clone."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.files import write_files
from tests.support.guides import commands_of, files_of, prints
from tests.support.own_repository import OwnFolder

GUIDE = "own-repository.md"
pytestmark = pytest.mark.slow


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[OwnFolder]:
    made = OwnFolder(tmp_path / "shop")
    assert made.run(["git", "init", "-q"]).returncode == 0
    yield made
    made.end()


def test_the_guide_works_as_printed(repository: OwnFolder):
    done = 0
    for line, expected in commands_of(GUIDE):
        words = shlex.split(line)
        if words[1:] == ["suite", "list"]:
            repository.start_up()
        if words[1:] == ["suite", "validate", "smoke"]:
            write_files(repository.folder, files_of(GUIDE))
        answer = repository.run(words)
        if words[0] == "sed":
            assert repository.stop_up() == 0
            repository.start_up()
        assert answer.returncode == 0, (line, answer.stdout, answer.stderr)
        assert prints(answer.stdout, expected), (line, answer.stdout, expected)
        done += 1

    assert done == 8
    status = repository.run(["git", "status", "--porcelain", "--untracked-files=all"]).stdout
    assert "var/" not in status
    assert "?? partita.toml" in status


def test_up_says_whose_suites_it_serves_and_follows_edits(repository: OwnFolder):
    assert repository.partita("init").returncode == 0
    repository.start_up()
    said = repository.hears("launch a suite: ")

    assert f"suites of shop in {repository.folder}/suites, by partita.toml" in said
    assert " run launch shop --watch" in said
    assert (repository.folder / "var" / "up.env").is_file()
    ran = repository.partita("run", "launch", "shop", "--watch", folder="suites/shop")
    assert ran.returncode == 0, ran.stdout + ran.stderr

    script = repository.folder / "suites" / "shop" / "tests" / "first.sh"
    script.write_text("#!/bin/sh\necho no\nexit 3\n")
    failed = repository.partita("run", "launch", "shop", "--watch", folder="suites")
    assert failed.returncode == 10, failed.stdout + failed.stderr
    assert not (repository.folder / "suites" / "var").exists()


def test_a_wrong_file_stops_up_and_says_the_line(repository: OwnFolder):
    (repository.folder / "partita.toml").write_text('name = "shop"\nsuits = "s"\n')

    answer = repository.partita("up")

    assert answer.returncode == 2
    place = f"{repository.folder}/partita.toml:2"
    assert (
        answer.stderr
        == f'error: {place}: "suits" is not a key of this file; did you mean suites?\n'
    )
    served = repository.partita("mock", "serve", "shop")
    assert (served.returncode, served.stderr) == (2, answer.stderr)
