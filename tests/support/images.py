"""Images that tests need and that are built on demand: of the examples, and Partita's own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from kernel.version import VERSION
from tests.support.parts import need

ROOT: Final = Path(__file__).resolve().parents[2]
BUILD: Final = ROOT / "examples" / "images" / "build"
PARTITA: Final = f"partita:{VERSION}"
BASE: Final = "partita/base:1"
# of a package index of the machine's own: variables of pip that the Dockerfile takes
_INDEX: Final = ("PIP_INDEX_URL", "PIP_CERT")


def image(name: str) -> str:
    """Return the image, built from Debian's packages if the engine of the tests lacks it."""
    if not _is_there(name):
        subprocess.run([str(BUILD), name], env=_environment(), check=True)
    return name


def partita_image() -> str:
    """Return the image of the Dockerfile, built on the base of the examples. Minutes of CPU."""
    if not _is_there(PARTITA):
        given = [word for name in _INDEX if os.environ.get(name) for word in ("--build-arg", name)]
        command = ["docker", "build", "--network", "host", "--target", "control-plane", *given]
        command += ["--build-arg", f"BASE={image(BASE)}", "--tag", PARTITA, str(ROOT)]
        done = subprocess.run(
            command, env=_environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return PARTITA


def _is_there(name: str) -> bool:
    command = ["docker", "image", "inspect", name]
    done = subprocess.run(command, env=_environment(), capture_output=True, check=False)
    return done.returncode == 0


def _environment() -> dict[str, str]:
    return {**os.environ, "DOCKER_HOST": need("TEST_DOCKER_HOST", "a Docker engine")}
