"""Programs in the keeper of a pod: signals, files and usage of the step beside it."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Final

from worker.domain.exports import Search, search_shared, searches, shared_hint
from worker.domain.runtime import CONTAINER_FOLDERS, WORKSPACE, Collected, CollectedFile
from worker.domain.tar_files import take_files
from worker.runtimes.kubernetes.client import ClusterClient
from worker.runtimes.kubernetes.objects import FILLER, KEEPER
from worker.runtimes.kubernetes.pod_spec import ARCHIVE, ARCHIVE_KEY, MARKS

_ARCHIVE_LIMIT: Final = 512 * 2**20  # bytes read of one folder, whatever matches in it
_IN_MEMORY: Final = 8 * 2**20
_TICKS: Final = 100  # of CPU time in a second; the same on every Linux
_PAGE: Final = 4096
# The step's processes are those of another container, but for the pod's own first process.
_OF_STEP: Final = """own=$(cat /proc/self/cgroup)
for d in /proc/[0-9]*; do p=${d#/proc/}
[ "$p" != 1 ] && c=$(cat $d/cgroup 2>/dev/null) && [ "$c" != "$own" ] || continue
"""
_TERMINATE: Final = _OF_STEP + "echo $p; done | sort -n | head -n 1 | xargs -r kill -TERM"
_KILL: Final = _OF_STEP + "echo $p; done | xargs -r kill -KILL"
_USAGE: Final = _OF_STEP + "cat $d/stat 2>/dev/null; done; true"
_CHANGES: Final = f"""cd {WORKSPACE} && find . -type f -newer {MARKS}/filled > {MARKS}/changed
[ ! -s {MARKS}/changed ] || tr '\\n' '\\0' < {MARKS}/changed | xargs -0 tar -cf - | gzip"""
_FEED: Final = f"""head -c $1 > {ARCHIVE}/new && mv {ARCHIVE}/new {ARCHIVE}/{ARCHIVE_KEY}"""


class TooLarge(Exception):
    """More than the limit came out of a container."""


class ExecFailed(Exception):
    """A program of ours ended with an error in a container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUsage:
    cpu_s: float
    memory_bytes: int


async def signal_step(client: ClusterClient, pod: str, *, kill: bool) -> None:
    """Send SIGTERM to the step's program, or SIGKILL to all its processes."""
    await client.run(pod, KEEPER, ["sh", "-c", _KILL if kill else _TERMINATE])


async def feed(client: ClusterClient, pod: str, archive: bytes) -> None:
    """Bring the archive into the init container, which waits for it."""
    argv = ["sh", "-c", _FEED, "sh", str(len(archive))]
    result = await client.run(pod, FILLER, argv, stdin=archive)
    if result.exit_code:
        raise ExecFailed(f"the files could not be copied: {result.errors.decode(errors='replace')}")


async def usage(client: ClusterClient, pod: str) -> ProcessUsage:
    """Return the CPU time and memory of the step's processes, and of those that they waited for."""
    result = await client.run(pod, KEEPER, ["sh", "-c", _USAGE])
    ticks = pages = 0
    for line in result.output.decode(errors="replace").splitlines():
        fields = line.rpartition(")")[2].split()
        if len(fields) > 21:  # noqa: PLR2004 - utime to cutime are 11 to 14, rss is 21 (proc(5))
            ticks += sum(map(int, fields[11:15]))
            pages += int(fields[21])
    return ProcessUsage(cpu_s=ticks / _TICKS, memory_bytes=pages * _PAGE)


async def changes(client: ClusterClient, pod: str, *, limit: int) -> bytes:
    """Return what the step wrote to the shared directory (tar+gzip), empty if nothing.

    Many files are several archives one after the other. Raises TooLarge.
    """
    taken = bytearray()

    def take(data: bytes) -> None:
        if len(taken) + len(data) > limit:
            raise TooLarge
        taken.extend(data)

    result = await client.run(pod, KEEPER, ["sh", "-c", _CHANGES], take=take)
    if result.exit_code:
        raise ExecFailed(result.errors.decode(errors="replace"))
    return bytes(taken)


async def collect(client: ClusterClient, pod: str, path: str) -> Collected:
    """Return what the first of the step's own directories has that match. Raises PathRefused."""
    for search in searches(path, CONTAINER_FOLDERS):
        found = await _search_folder(client, pod, search)
        if found.files or found.skipped:
            return found
    shared = search_shared(path, CONTAINER_FOLDERS)
    if shared and (await _search_folder(client, pod, shared)).files:
        return Collected(hint=shared_hint(path))
    return Collected()


async def _search_folder(client: ClusterClient, pod: str, search: Search) -> Collected:
    folder = PurePosixPath(search.folder)
    if not _is_kept(folder):
        return Collected()
    argv = ["tar", "-cf", "-", "-C", str(folder.parent), "--", folder.name]
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        try:
            await client.run(pod, KEEPER, argv, take=_limit_output(file.write))
        except TooLarge:
            size = _ARCHIVE_LIMIT // 2**20
            return Collected(skipped=(f"{search.folder} is larger than {size} MiB: none read",))
        file.seek(0)
        return _read(file, search)


def _is_kept(folder: PurePosixPath) -> bool:
    """Return whether the folder is in one of the directories that outlive the step."""
    kept = (CONTAINER_FOLDERS.step, CONTAINER_FOLDERS.artifacts, CONTAINER_FOLDERS.workspace)
    return any(folder.is_relative_to(each) for each in kept)


def _limit_output(write: Callable[[bytes], int]) -> Callable[[bytes], None]:
    left = _ARCHIVE_LIMIT

    def take(data: bytes) -> None:
        nonlocal left
        left -= len(data)
        if left < 0:
            raise TooLarge
        write(data)

    return take


def _read(file: IO[bytes], search: Search) -> Collected:
    files: list[CollectedFile] = []
    skipped: list[str] = []
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            take_files(archive, search, files, skipped)
    except tarfile.ReadError:  # empty: there is no such folder
        return Collected()
    return Collected(files=tuple(files), skipped=tuple(skipped))
