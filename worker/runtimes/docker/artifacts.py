"""Artifacts out of an ended container: files only, bounded, never through a link.

(reference: control-plane 7.4)
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import IO, Final, cast

import docker

from worker.domain.exports import Search, search_shared, searches, shared_hint, take_files
from worker.domain.runtime import CONTAINER_FOLDERS, Collected, CollectedFile
from worker.runtimes.docker.engine import inspect_container

_ARCHIVE_LIMIT: Final = 2 * 2**30  # bytes read of one folder, whatever matches in it


def collect(client: docker.APIClient, unit_id: str, path: str) -> Collected:
    """Return what the first of the step's own directories has that match. Raises PathRefused.

    The last of them is that of the image, if the step started there.
    """
    working = (
        "" if path.startswith("/") else inspect_container(unit_id)(client).config.working_dir or "/"
    )
    for search in searches(path, CONTAINER_FOLDERS, working=working):
        found = _find_files(client, unit_id, search)
        if found.files or found.skipped:
            return found
    shared = search_shared(path, CONTAINER_FOLDERS)
    if shared and _find_files(client, unit_id, shared).files:
        return Collected(hint=shared_hint(path))
    return Collected()


def _find_files(client: docker.APIClient, unit_id: str, search: Search) -> Collected:
    try:
        stream, _ = client.get_archive(unit_id, search.folder)
    except docker.errors.NotFound:
        return Collected()
    files: list[CollectedFile] = []
    skipped: list[str] = []
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", _ChunkReader(stream)), mode="r|") as archive:
            take_files(archive, search, files, skipped)
    except tarfile.ReadError:
        skipped.append(
            f"{search.folder} is larger than {_ARCHIVE_LIMIT // 2**30} GiB: not all read"
        )
    return Collected(files=tuple(files), skipped=tuple(skipped))


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
