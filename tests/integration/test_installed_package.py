"""The wheel of `partita` as somebody has it who has no clone: installed, started, asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from kernel.version import VERSION
from tests.support.own_repository import OwnFolder
from tests.support.processes import ROOT
from tests.support.wheels import build_wheel, install_wheel

pytestmark = pytest.mark.slow
MOST_MB = 8  # of the wheel, with the documentation site that `make dist` builds before


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the `partita` of an environment that has the wheel and what it requires."""
    programs = install_wheel(wheel, tmp_path_factory.mktemp("environment") / "env")
    return str(programs / "partita")


@pytest.fixture
def folder(program: str, tmp_path: Path) -> Iterator[OwnFolder]:
    made = OwnFolder(tmp_path / "shop", [program])
    yield made
    made.end()


def test_the_wheel_is_small_and_its_metadata_whole(wheel: Path):
    assert wheel.stat().st_size < MOST_MB * 2**20
    metadata = ZipFile(wheel).read(f"partita-{VERSION}.dist-info/METADATA").decode()
    head, _, readme = metadata.partition("\n\n")

    assert "\nLicense-Expression: Apache-2.0\n" in head
    assert "\nDescription-Content-Type: text/markdown\n" in f"{head}\n"
    assert "\nClassifier: Operating System :: POSIX :: Linux\n" in head
    assert readme.startswith("# Partita\n")


def test_up_in_an_empty_folder_runs_the_first_suite(folder: OwnFolder):
    assert folder.partita("version").stdout == f"partita {VERSION}\n"
    folder.start_up()
    run_id = folder.launched()
    folder.hears("serving until Ctrl-C")

    assert (folder.folder / "var" / "partita.sqlite3").is_file()
    shown = folder.partita("run", "show", run_id, "-o", "json")
    assert json.loads(shown.stdout)["status"] == "Healthy", shown.stdout + shown.stderr
    assert folder.stop_up() == 0


def test_a_first_suite_is_written_run_broken_and_explained(folder: OwnFolder):
    made = folder.partita("init", "--template", "worker")
    assert made.returncode == 0, made.stderr
    assert folder.partita("suite", "lint", "--strict").returncode == 0
    folder.start_up()
    ran = folder.partita("run", "launch", "shop", "--watch")
    assert ran.returncode == 0, ran.stdout + ran.stderr

    script = folder.folder / "suites" / "shop" / "tests" / "all_done.sh"
    script.write_text("#!/bin/sh\necho 'the queue is full' >&2\nexit 7\n")
    failed = folder.partita("run", "launch", "shop", "--watch")
    [run] = json.loads(folder.partita("run", "list", "--status", "failed", "-o", "json").stdout)[
        "executions"
    ]
    why = folder.partita("run", "why", run["id"])

    assert failed.returncode == 10, failed.stdout + failed.stderr
    assert "all-done exited with code 7" in why.stdout
    assert "the queue is full" in why.stdout
