"""Artifacts out of an ended container: files only, bounded, never through a link.

(reference: control-plane 7.4)
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, Final, cast

import docker

from worker.domain.exports import Search, search_shared, searches, shared_hint
from worker.domain.runtime import (
    CONTAINER_FOLDERS,
    FILE_LIMIT,
    MATCH_LIMIT,
    Collected,
    CollectedFile,
)
from worker.runtimes.docker.engine import inspected

_ARCHIVE_LIMIT: Final = 2 * 2**30  # bytes read of one folder, whatever matches in it


def collect(client: docker.APIClient, unit_id: str, path: str) -> Collected:
    """Return what the first of the step's own directories has that match. Raises PathRefused.

    The last of them is that of the image, if the step started there.
    """
    working = "" if path.startswith("/") else inspected(unit_id)(client).config.working_dir or "/"
    for search in searches(path, CONTAINER_FOLDERS, working=working):
        found = _found(client, unit_id, search)
        if found.files or found.skipped:
            return found
    shared = search_shared(path, CONTAINER_FOLDERS)
    if shared and _found(client, unit_id, shared).files:
        return Collected(hint=shared_hint(path))
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
        is_plain = member.isreg() and ".." not in PurePosixPath(member.name).parts
        if is_plain and search.matches(name, mtime=member.mtime):
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
