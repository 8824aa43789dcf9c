"""Packages of npm that tests use, each fetched once."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

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
        sentence = f"needs npm and its package {name} {version}"
        if os.environ.get("CI"):
            pytest.fail(sentence)
        pytest.skip(sentence)
    return folder
