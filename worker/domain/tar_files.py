"""Artifacts out of a tar of a folder: files only, bounded, never through a link.

(reference: control-plane 7.4)
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath

from worker.domain.exports import Search
from worker.domain.runtime import FILE_LIMIT, MATCH_LIMIT, CollectedFile


def take_files(
    archive: tarfile.TarFile, search: Search, files: list[CollectedFile], skipped: list[str]
) -> None:
    """Add the files that match; say in `skipped` why others that match are left out.

    The archive is that of the folder, whose own name its names begin with.
    """
    for member, name in _matching(archive, search):
        if len(files) == MATCH_LIMIT:
            skipped.append(f"more than {MATCH_LIMIT} files match; the rest is left out")
            break
        body = archive.extractfile(member)
        if body is None or member.size > FILE_LIMIT:
            skipped.append(f"{search.strip_prefix(name)}: larger than {FILE_LIMIT // 2**20} MiB")
        else:
            files.append(CollectedFile(path=search.strip_prefix(name), body=body.read()))


def _matching(archive: tarfile.TarFile, search: Search) -> Iterator[tuple[tarfile.TarInfo, str]]:
    base = PurePosixPath(search.folder).parent
    for member in archive:
        name = str(base / member.name)
        is_plain = member.isreg() and ".." not in PurePosixPath(member.name).parts
        if is_plain and search.matches(name, mtime=member.mtime):
            yield member, name
