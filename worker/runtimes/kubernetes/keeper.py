"""Programs in the keeper of a pod: signals, files and usage of the step beside it."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Final

from worker.domain.exports import Search, search_shared, searches, shared_hint, take_files
from worker.domain.runtime import CONTAINER_FOLDERS, WORKSPACE, Collected, CollectedFile
from worker.runtimes.kubernetes.client import ClusterClient
from worker.runtimes.kubernetes.exec_stream import ExecResult
from worker.runtimes.kubernetes.objects import FILLER
from worker.runtimes.kubernetes.pod_keepers import Keepers
from worker.runtimes.kubernetes.pod_scripts import (
    ARCHIVE,
    ARCHIVE_KEY,
    GATE_READY,
    LIST_SHARED,
    MARKS,
)

_ARCHIVE_LIMIT: Final = 512 * 2**20  # bytes read of one folder, whatever matches in it
_IN_MEMORY: Final = 8 * 2**20
TRANSFER_S: Final = 300.0  # for files on their way into or out of a container
_NO_FOLDER: Final = 44
_END_OF_ARCHIVE: Final = bytes(1024)
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
_NEW: Final = "FILENAME == ARGV[1] { known[$0]; next } !($0 in known) { print substr($0, 35) }"
_CHANGES: Final = f"""{LIST_SHARED} >{MARKS}/found
awk '{_NEW}' {MARKS}/filled {MARKS}/found >{MARKS}/changed
[ ! -s {MARKS}/changed ] || tr '\\n' '\\0' <{MARKS}/changed \\
  | xargs -0 tar -C {WORKSPACE} -cf - | gzip"""
_PACK: Final = f'[ -e "$1/$2" ] || exit {_NO_FOLDER}; exec tar -cf - -C "$1" -- "$2"'
_FEED: Final = f"""head -c $1 > {ARCHIVE}/new && mv {ARCHIVE}/new {ARCHIVE}/{ARCHIVE_KEY}"""

_ADD: Final = f"""umask 0; head -c $1 | gzip -dc | tar -xf - -C / \\
  && {{ [ ! -e {MARKS}/filled ] || {LIST_SHARED} >{MARKS}/filled; }}"""

_UNTIL_READY: Final = f"""tries=0
until [ -e {GATE_READY} ]; do
  tries=$((tries+1)); [ $tries -lt 100 ] || exit 1; sleep 0.1
done"""


class TooLarge(Exception):
    """More than the limit came out of a container."""


class ExecFailed(Exception):
    """A program of ours ended with an error in a container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUsage:
    cpu_s: float
    memory_bytes: int


async def signal_step(keepers: Keepers, pod: str, *, kill: bool) -> None:
    """Send SIGTERM to the step's program, or SIGKILL to all its processes. Raises ExecFailed.

    It may be called again: a process that ended meanwhile is an error, too.
    """
    result = await keepers.run(pod, ["sh", "-c", _KILL if kill else _TERMINATE])
    if result.exit_code:
        raise ExecFailed(f"the step could not be stopped: {_last_line(result)}")


async def feed(client: ClusterClient, pod: str, archive: bytes) -> None:
    """Bring the archive into the init container, which waits for it."""
    argv = ["sh", "-c", _FEED, "sh", str(len(archive))]
    result = await client.run(pod, FILLER, argv, stdin=archive, limit_s=TRANSFER_S)
    if result.exit_code:
        raise ExecFailed(f"the files could not be copied: {_last_line(result)}")


async def add_files(keepers: Keepers, pod: str, archive: bytes) -> None:
    """Add an archive for `/` to the directories of a pod that is filled already."""
    argv = ["sh", "-c", _ADD, "sh", str(len(archive))]
    result = await keepers.run(pod, argv, stdin=archive, limit_s=TRANSFER_S)
    if result.exit_code:
        raise ExecFailed(f"files could not be added: {_last_line(result)}")


async def wait_for_gate(keepers: Keepers, pod: str) -> None:
    """Return when the gate of a pod waits for its release. Raises ExecFailed if it ends before."""
    result = await keepers.run(pod, ["sh", "-c", _UNTIL_READY])
    if result.exit_code:
        raise ExecFailed("the program cannot be started behind a gate")


async def usage(keepers: Keepers, pod: str) -> ProcessUsage:
    """Return the CPU time and memory of the step's processes, and of those that they waited for."""
    result = await keepers.run(pod, ["sh", "-c", _USAGE])
    ticks = pages = 0
    for line in result.output.decode(errors="replace").splitlines():
        fields = line.rpartition(")")[2].split()
        if len(fields) > 21:  # noqa: PLR2004 - utime to cutime are 11 to 14, rss is 21 (proc(5))
            ticks += sum(map(int, fields[11:15]))
            pages += int(fields[21])
    return ProcessUsage(cpu_s=ticks / _TICKS, memory_bytes=pages * _PAGE)


async def changes(keepers: Keepers, pod: str, *, limit: int) -> bytes:
    """Return what the step wrote to the shared directory (tar+gzip), empty if nothing.

    Many files are several archives one after the other. Raises TooLarge.
    """
    taken = bytearray()

    def take(data: bytes) -> None:
        if len(taken) + len(data) > limit:
            raise TooLarge
        taken.extend(data)

    argv = ["sh", "-c", _CHANGES]
    result = await keepers.run(pod, argv, take=take, limit_s=TRANSFER_S)
    if result.exit_code:
        raise ExecFailed(f"the shared directory could not be read: {_last_line(result)}")
    return bytes(taken)


async def collect(keepers: Keepers, pod: str, path: str) -> Collected:
    """Return what the first of the step's own directories has that match. Raises PathRefused."""
    for search in searches(path, CONTAINER_FOLDERS):
        found = await _search_folder(keepers, pod, search)
        if found.files or found.skipped:
            return found
    shared = search_shared(path, CONTAINER_FOLDERS)
    if shared and (await _search_folder(keepers, pod, shared)).files:
        return Collected(hint=shared_hint(path))
    return Collected()


async def _search_folder(keepers: Keepers, pod: str, search: Search) -> Collected:
    folder = PurePosixPath(search.folder)
    if not _is_kept(folder):
        return Collected()
    argv = ["sh", "-c", _PACK, "sh", str(folder.parent), folder.name]
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        try:
            take = _limit_output(file.write)
            result = await keepers.run(pod, argv, take=take, limit_s=TRANSFER_S)
        except TooLarge:
            size = _ARCHIVE_LIMIT // 2**20
            return Collected(skipped=(f"{search.folder} is larger than {size} MiB: none read",))
        if result.exit_code == _NO_FOLDER:
            return Collected()
        if not _is_whole(file):  # an exit code alone may be of a socket, which tar leaves out
            raise ExecFailed(f"{search.folder} could not be read: {_last_line(result)}")
        return _read(file, search)


def _is_whole(file: IO[bytes]) -> bool:
    """Return whether the archive has its end."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - len(_END_OF_ARCHIVE)))
    return file.read() == _END_OF_ARCHIVE


def _last_line(result: ExecResult) -> str:
    text = result.errors.decode(errors="replace").strip().rpartition("\n")[2]
    return text or f"exit code {result.exit_code}"


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
    file.seek(0)
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            take_files(archive, search, files, skipped)
    except tarfile.ReadError as error:
        raise ExecFailed(f"{search.folder} could not be read: {error}") from error
    return Collected(files=tuple(files), skipped=tuple(skipped))
