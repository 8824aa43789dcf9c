"""What `pip install .` installs: the tree that Partita runs on, and nothing else of a checkout."""

from __future__ import annotations

import compileall
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

from kernel.version import VERSION
from tests.architecture.sources import PACKAGES
from tests.support.parts import give_up
from tests.support.processes import ROOT

# A new folder of the tree is installed, or named here.
LEFT_OUT = (
    ".ci/", "bench/", "docs/", "documentation/", "examples/ci/", "examples/deploy/",
    "examples/sync/", "proto/", "release/", "tests/",
)  # fmt: skip
BUILT = "partita/documentation/html/"  # by `make docs`, where that was done
TOP = {"manage.py", "partita_program.py"}
INFO = f"partita-{VERSION}.dist-info"
START = (
    "import site, sys; site.addsitedir(sys.argv.pop(1)); from partita_program import main; main()"
)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    if find_spec("hatchling") is None:
        give_up("needs hatchling, of the tools of `make test`")
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return ZipFile(next(folder.iterdir()))


@pytest.fixture(scope="module")
def installed(wheel: ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder like `site-packages`, with the bytecode that pip adds to all it installs."""
    folder = tmp_path_factory.mktemp("site-packages")
    wheel.extractall(folder)
    assert compileall.compile_dir(folder / "partita" / "examples", quiet=1)
    return folder


def run(installed: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    variables: Mapping[str, str] = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(cwd),
        "DB_DRIVER": "sqlite",
    }
    return subprocess.run(
        [sys.executable, "-I", "-c", START, str(installed), *words],
        cwd=cwd, env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_wheel_is_the_tree_without_what_only_a_checkout_needs(wheel: ZipFile):
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    said = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    tree = {path for path in said.splitlines() if (ROOT / path).is_file()}
    wanted = {path for path in tree if "/" in path and not path.startswith(LEFT_OUT)}

    made = (f"{INFO}/", BUILT)
    names = {name for name in wheel.namelist() if not name.startswith(made)}

    assert names == {"partita.pth", *(f"partita/{path}" for path in wanted | TOP)}


def test_a_documentation_site_that_was_built_is_in_the_wheel(wheel: ZipFile):
    site = ROOT / "documentation" / "html"
    wanted = {
        BUILT + path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()
    }

    assert {name for name in wheel.namelist() if name.startswith(BUILT)} == wanted


def test_its_version_and_its_program_are_those_of_the_tree(wheel: ZipFile):
    assert f"\nVersion: {VERSION}\n" in wheel.read(f"{INFO}/METADATA").decode()
    assert "partita = partita_program:main" in wheel.read(f"{INFO}/entry_points.txt").decode()


def test_programs_in_it_stay_executable(wheel: ZipFile):
    mode = wheel.getinfo("partita/examples/images/build").external_attr >> 16

    assert mode & 0o111


def test_no_library_has_a_module_of_the_same_name():
    others = packages_distributions().items()
    own = {*PACKAGES, "manage", "partita_program"}
    taken = {name: whose for name, whose in others if name in own}

    assert {name: whose for name, whose in taken.items() if whose != ["partita"]} == {}


def test_an_installed_partita_has_its_suites_in_any_folder(installed: Path, tmp_path: Path):
    done = run(installed, "suite", "list", "-o", "json", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert '"hello"' in done.stdout
    assert "package_invalid" not in done.stdout


def test_an_installed_partita_makes_suites_from_its_templates(installed: Path, tmp_path: Path):
    made = run(installed, "suite", "new", "jobs", "--template", "web", cwd=tmp_path)

    assert made.returncode == 0, made.stderr
    assert (tmp_path / "jobs/suite.star").is_file()
    assert not list((tmp_path / "jobs").rglob("__pycache__"))


@pytest.mark.parametrize("path", ["docker-compose.yml", "examples/deploy/worker/compose.yaml"])
def test_the_image_is_named_by_the_version(path: str):
    assert f"partita:{VERSION}" in (ROOT / path).read_text()


def test_the_image_says_its_version():
    assert f"\nARG VERSION={VERSION}\n" in (ROOT / "Dockerfile").read_text()
