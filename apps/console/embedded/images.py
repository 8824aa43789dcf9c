"""The images of the examples, where no registry has them: built from `examples/images`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

PULL_S = 60
Say = Callable[[str], None]


class ImageMissing(RuntimeError):
    """It is neither here nor pullable, and the recipe failed; the message has its last words."""


def ensure(images: Iterable[str], builder: Path, say: Say) -> None:
    """Make each image that has a recipe present: there already, pulled, or built, saying so.

    Images without a recipe are left to the run. Raises ImageMissing.
    """
    try:
        known = _run(str(builder), "--list").stdout.split()
        for image in images:
            if image in known and not _present(image):
                _fetch(image, builder, say)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ImageMissing(str(error)) from error


def _fetch(image: str, builder: Path, say: Say) -> None:
    say(f"pulling {image}")
    if not _pulled(image):
        say(f"{image} is neither here nor pullable: building a stand-in from Debian's packages")
        _build(builder, image)


def _present(image: str) -> bool:
    return _run("docker", "image", "inspect", image).returncode == 0


def _pulled(image: str) -> bool:
    try:
        return _run("docker", "pull", "-q", image, timeout=PULL_S).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _build(builder: Path, image: str) -> None:
    result = _run(str(builder), image, timeout=600)
    if result.returncode != 0:
        raise ImageMissing(f"{builder} {image} failed: {result.stderr.strip()[-500:]}")


def _run(*command: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - docker and our own builder, no shell
        command, capture_output=True, text=True, check=False, timeout=timeout
    )
