"""Artifacts out of an ended container: files only, bounded, never through a link.

(reference: control-plane 7.4)
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, Final, cast

import docker

from worker.domain.exports import Search, searches
from worker.domain.runtime import (
    ARTIFACTS,
    FILE_LIMIT,
    MATCH_LIMIT,
    WORKSPACE,
    Collected,
    CollectedFile,
)

_ARCHIVE_LIMIT: Final = 2 * 2**30  # bytes read of one folder, whatever matches in it


def collect(client: docker.APIClient, unit_id: str, path: str) -> Collected:
    """The first of artifacts folder and work directory that has a match. Raises PathRefused."""
    for search in searches(path, artifacts=ARTIFACTS, workspace=WORKSPACE):
        found = _found(client, unit_id, search)
        if found.files or found.skipped:
            return found
    return Collected()


def _found(client: docker.APIClient, unit_id: str, search: Search) -> Collected:
    try:
        stream, _ = client.get_archive(unit_id, search.folder)
    except docker.errors.NotFound:
        return Collected()
    files: list[CollectedFile] = []
    skipped: list[str] = []
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", _ChunkReader(stream)), mode="r|") as archive:
            _take(archive, search, files, skipped)
    except tarfile.ReadError:
        skipped.append(
            f"{search.folder} is larger than {_ARCHIVE_LIMIT // 2**30} GiB: not all read"
        )
    return Collected(files=tuple(files), skipped=tuple(skipped))


def _take(
    archive: tarfile.TarFile, search: Search, files: list[CollectedFile], skipped: list[str]
) -> None:
    for member, name in _matching(archive, search):
        if len(files) == MATCH_LIMIT:
            skipped.append(f"more than {MATCH_LIMIT} files match; the rest is left out")
            break
        body = archive.extractfile(member)
        if body is None or member.size > FILE_LIMIT:
            skipped.append(f"{search.shown(name)}: larger than {FILE_LIMIT // 2**20} MiB")
        else:
            files.append(CollectedFile(path=search.shown(name), body=body.read()))


def _matching(archive: tarfile.TarFile, search: Search) -> Iterator[tuple[tarfile.TarInfo, str]]:
    base = PurePosixPath(search.folder).parent
    for member in archive:
        name = str(base / member.name)
        if member.isreg() and ".." not in PurePosixPath(member.name).parts and search.matches(name):
            yield member, name


class _ChunkReader:
    """The chunks of an answer as a file that tarfile can read once."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = iter(chunks)
        self._buffer = b""
        self._left = _ARCHIVE_LIMIT

    def read(self, size: int) -> bytes:
        while len(self._buffer) < size and self._left > 0:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            self._left -= len(chunk)
            self._buffer += chunk
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data
