"""Images of the examples that tests need and that are built on demand."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.parts import need

BUILD = Path(__file__).resolve().parents[2] / "examples" / "images" / "build"


def image(name: str) -> str:
    """The image, built from Debian's packages if the engine of the tests lacks it."""
    environment = {**os.environ, "DOCKER_HOST": need("TEST_DOCKER_HOST", "a Docker engine")}
    command = ["docker", "image", "inspect", name]
    if subprocess.run(command, env=environment, capture_output=True, check=False).returncode:
        subprocess.run([str(BUILD), name], env=environment, check=True)
    return name
