"""Wheels of this tree, and environments that have one and what it requires."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.parts import give_up
from tests.support.processes import ROOT

UV: Final = Path(sys.executable).with_name("uv")


def build_wheel(project: Path, folder: Path) -> Path:
    """Build the wheel of a project into an empty folder; give up where it cannot be built."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(build, cwd=project, check=False, capture_output=True)
    if done.returncode:
        give_up(f"the wheel cannot be built: {done.stderr.decode()[-300:]}")
    return next(folder.iterdir())


def install_wheel(wheel: Path, folder: Path) -> Path:
    """Make an environment that has the wheel and what it requires; return its programs' folder."""
    if not UV.exists():
        give_up("needs uv, of the tools of `make test`")
    subprocess.run([UV, "venv", "-q", "-p", sys.executable, folder], check=True)
    pins = str(ROOT / "requirements.txt")
    install = [str(UV), "pip", "install", "-q", "-p", str(folder), "-c", pins, str(wheel)]
    # what is in the cache needs no index
    done = subprocess.run([*install, "--offline"], check=False, capture_output=True)
    if done.returncode:
        done = subprocess.run(install, check=False, capture_output=True)
    if done.returncode:
        give_up(f"the libraries cannot be installed: {done.stderr.decode()[-300:]}")
    return folder / "bin"
