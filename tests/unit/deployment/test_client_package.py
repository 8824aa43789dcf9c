"""The wheel `partita-client`: the client alone, without a dependency and without the kernel."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

from kernel.version import VERSION
from tests.support.parts import give_up
from tests.support.processes import ROOT

FOLDER = ROOT / "partita_client"
INFO = f"partita_client-{VERSION}.dist-info"
START = """
import sys; sys.path.insert(0, sys.argv.pop(1))
from partita_client.__main__ import main; main()
"""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder like `site-packages` that has the wheel and nothing else."""
    if find_spec("hatchling") is None:
        give_up("needs hatchling, of the tools of `make test`")
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=FOLDER, check=True, capture_output=True)
    site = tmp_path_factory.mktemp("site-packages")
    ZipFile(next(folder.glob("*.whl"))).extractall(site)
    return site


def run(installed: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", START, str(installed), *words],
        cwd=cwd, env={"PATH": "/usr/bin:/bin", "HOME": str(cwd)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_it_is_the_folder_with_four_modules_from_elsewhere(installed: Path):
    package = installed / "partita_client"
    tree = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.py")}

    found = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}

    assert found == tree | {"py.typed", "LICENSE"}
    for name, source in (
        ("release.py", "kernel/version.py"), ("exit_codes.py", "kernel/exit_codes.py"),
        ("durations.py", "kernel/durations.py"), ("project_file.py", "readers/project_file.py"),
    ):  # fmt: skip
        assert (package / name).read_text() == (ROOT / source).read_text()


def test_it_needs_nothing(installed: Path):
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]

    assert project["dependencies"] == []
    assert "Requires-Dist" not in [
        line.partition(":")[0]
        for line in (installed / INFO / "METADATA").read_text().splitlines()
        if "extra ==" not in line
    ]


def test_it_runs_where_nothing_else_is_installed(installed: Path, tmp_path: Path):
    assert run(installed, "--version", cwd=tmp_path).stdout == f"partita {VERSION}\n"
    assert "partita login" in run(installed, "run", "list", cwd=tmp_path).stderr
    for verb in ("list", "launch", "why"):
        assert "usage: partita run" in run(installed, "run", verb, "--help", cwd=tmp_path).stdout


@pytest.mark.parametrize("noun", ["suite", "profile", "environment"])
def test_a_noun_of_both_halves_has_its_own_help_there(installed: Path, tmp_path: Path, noun: str):
    for words in ((noun, "--help"), (noun, "-h"), ("help", noun)):
        done = run(installed, *words, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"usage: partita {noun} VERB" in done.stdout

    assert "name a verb: list" in run(installed, noun, cwd=tmp_path).stderr
    assert "usage:" in run(installed, noun, "list", "--help", cwd=tmp_path).stdout
    assert "did you mean" in run(installed, noun, "lst", cwd=tmp_path).stderr
    listed = run(installed, noun, "list", cwd=tmp_path)
    assert (listed.returncode, "partita login" in listed.stderr) == (6, True)


def test_it_reads_partita_toml_there(installed: Path, tmp_path: Path):
    (tmp_path / "partita.toml").write_text('server = "https://partita.example.org"\n')

    done = run(installed, "context", "show", cwd=tmp_path)

    assert done.stdout == "https://partita.example.org, by partita.toml\n"


def test_what_it_has_not_names_the_whole_package(installed: Path, tmp_path: Path):
    for words in (["up"], ["suite", "lint", "shop"], ["environment", "reap-all"]):
        done = run(installed, *words, cwd=tmp_path)

        assert done.returncode == 2
        assert "pip install partita" in done.stderr
