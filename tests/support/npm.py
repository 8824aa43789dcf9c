"""Packages of npm that tests use, each fetched once."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.support.parts import give_up
from tests.support.processes import ROOT


def npm_package(name: str, version: str) -> Path:
    """Return the folder whose `node_modules` holds the package; skip (fail in CI) without npm."""
    folder = ROOT / ".cache" / name.strip("@").replace("/", "-")
    index = folder / "node_modules" / name / "package.json"
    if not index.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if shutil.which("npm") and not index.exists():
                command = ["npm", "install", "--no-audit", "--no-fund", "--silent"]
                wanted = f"{name}@{version}"
                subprocess.run([*command, wanted], cwd=folder, check=False, timeout=240)
    if not index.exists():
        give_up(f"needs npm and its package {name} {version}")
    return folder


def npm_files(name: str, version: str, *paths: str) -> list[Path]:
    """Return files of a package that is not installed: only they are kept of its archive.

    Skip (fail in CI) without npm.
    """
    folder = ROOT / ".cache" / "npm-files" / f"{name.strip('@').replace('/', '-')}-{version}"
    found = [folder / path for path in paths]
    if not all(path.exists() for path in found):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if shutil.which("npm") and not all(path.exists() for path in found):
                _keep_files(f"{name}@{version}", folder, paths)
    if not all(path.exists() for path in found):
        give_up(f"needs npm and its package {name} {version}")
    return found


def _keep_files(wanted: str, folder: Path, paths: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = ["npm", "pack", "--silent", "--pack-destination", scratch, wanted]
        subprocess.run(command, cwd=scratch, check=False, timeout=240, capture_output=True)
        for archive in Path(scratch).glob("*.tgz"):
            with tarfile.open(archive) as entries:
                for entry in entries:
                    path = entry.name.partition("/")[2]
                    content = entries.extractfile(entry) if path in paths else None
                    if content is not None:
                        (folder / path).parent.mkdir(parents=True, exist_ok=True)
                        (folder / path).write_bytes(content.read())
