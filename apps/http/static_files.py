"""The addresses of static files: `/static/v-<version>/<path>`, fresh forever (decision 0024)."""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import urljoin

from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.core.files.storage import Storage

_VERSIONED: Final = re.compile(r"v-([0-9a-f]{16})/(.+)")


@dataclass(frozen=True, slots=True)
class StaticVersion:
    digest: str
    read_at: float  # seconds of the epoch


@lru_cache(maxsize=1)
def static_version() -> StaticVersion:
    """Return the version of all static files at the first call: of their names and content.

    Files of libraries count by name, size and time of change.
    """
    read_at, digest = time.time(), hashlib.sha256()
    for finder in finders.get_finders():
        for path, storage in sorted(_files(finder), key=lambda each: each[0]):
            location = Path(storage.path(path))
            digest.update(f"{path}\0".encode())
            if isinstance(finder, finders.FileSystemFinder):
                digest.update(hashlib.sha256(location.read_bytes()).digest())
            else:
                facts = location.stat()
                digest.update(f"{facts.st_size} {facts.st_mtime_ns}\0".encode())
    return StaticVersion(digest.hexdigest()[:16], read_at)


def _files(finder: finders.BaseFinder) -> list[tuple[str, Storage]]:
    return list(finder.list([]))


def split_version(path: str) -> tuple[str, str]:
    """Return the version in a path below `/static/`, empty without one, and the file's path."""
    found = _VERSIONED.fullmatch(path)
    return (found[1], found[2]) if found else ("", path)


class VersionedStaticFiles(StaticFilesStorage):
    """Puts the version before the path, so that relative imports of modules keep it."""

    def url(self, name: str | None) -> str:
        return urljoin(super().url(""), f"v-{static_version().digest}/{name or ''}")
