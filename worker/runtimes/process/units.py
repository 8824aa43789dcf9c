"""The folder of one step on disk, the processes that belong to it, and what they use.

`<root>/runs/<run>/units/<name>/`: `unit.json` (labels), the files of `wrapper.py`, `artifacts/`,
`home/`, `step/`, where its program starts: a copy of the suite's files, and `shells/` (claims of
open shells);
`<root>/runs/<run>/run.json`: the labels of the run;
`<root>/runs/<run>/workspaces/<name>/`: a shared directory, present only when it is complete, or
while no job has brought files, as `<root>/runs/<run>/without-files/<name>` then says.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import psutil

from worker.domain.exports import SUITE_FILE_MTIME
from worker.domain.runtime import Unit, UnitState
from worker.domain.shells import MARK
from worker.runtimes.process.suite_files import write_suite_files

_CLOCK_SLACK_S: Final = 1.0
_KILL_TRIES: Final = 5
_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class _Claim(msgspec.Struct, frozen=True):
    """The process that wrote a file for others to find it: pid and time, in Unix seconds."""

    pid: int
    time: float


def _read_claim(path: Path) -> _Claim | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Claim)
    except FileNotFoundError:
        return None


def claiming_process(path: Path) -> psutil.Process | None:
    """Return the process that wrote the claim; a later one with its pid started after it."""
    claim = _read_claim(path)
    if claim is None:
        return None
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(claim.pid)
        if process.create_time() <= claim.time + _CLOCK_SLACK_S and is_alive(process):
            return process
    return None


@dataclass(frozen=True)
class UnitFolder:
    path: Path

    @property
    def artifacts(self) -> Path:
        return self.path / "artifacts"

    @property
    def step(self) -> Path:
        return self.path / "step"

    @property
    def output(self) -> Path:
        return self.path / "output"

    @property
    def shells(self) -> Path:
        """Return the folder with a claim of each open shell, named by the id of the shell."""
        return self.path / "shells"

    @cached_property
    def labels(self) -> dict[str, str]:
        return dict(json.loads((self.path / "unit.json").read_text())["labels"])

    def is_there(self) -> bool:
        """Return True if the folder exists; its labels stay known if another thread removes it."""
        try:
            return bool(self.labels)
        except (FileNotFoundError, NotADirectoryError):
            return False

    @cached_property
    def workspace(self) -> Path:
        name = json.loads((self.path / "unit.json").read_text())["workspace"]
        return self.path.parents[1] / "workspaces" / str(name)

    def make(self, labels: dict[str, str], workspace: str, content: bytes) -> None:
        """Make the directories of an attempt; `content`: the suite's files (tar+gzip), or empty."""
        for folder in (self.artifacts, self.step, self.path / "home"):
            folder.mkdir(parents=True, exist_ok=True)
        if content:
            write_suite_files(content, self.step, mtime=SUITE_FILE_MTIME)
        scratch = self.path / "unit.new"
        scratch.write_text(json.dumps({"labels": labels, "workspace": workspace}))
        scratch.replace(self.path / "unit.json")

    def unit(self) -> Unit:
        claim, state = self._claim(), UnitState.CREATED
        if claim:
            is_running = self.wrapper() and self.exit_code() is None
            state = UnitState.RUNNING if is_running else UnitState.ENDED
        return Unit(
            id=str(self.path),
            name=self.path.name,
            state=state,
            labels=self.labels,
            started_at=datetime.fromtimestamp(claim.time, UTC) if claim else None,
        )

    def _claim(self) -> _Claim | None:
        return _read_claim(self.path / "pid")

    def exit_code(self) -> int | None:
        try:
            return int((self.path / "exit").read_text())
        except FileNotFoundError:
            return None

    def wrapper(self) -> psutil.Process | None:
        """Return the process that started the step and outlives its supervisor."""
        return claiming_process(self.path / "pid")

    def members(self) -> list[psutil.Process]:
        """Return the step's processes without its wrapper: its session and descendants."""
        claim = self._claim()
        if claim is None:
            return []
        found: dict[int, psutil.Process] = {}
        for process in psutil.process_iter():
            with contextlib.suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
                if os.getsid(process.pid) == claim.pid:
                    found[process.pid] = process
        if wrapper := self.wrapper():
            with contextlib.suppress(psutil.NoSuchProcess):
                found |= {process.pid: process for process in wrapper.children(recursive=True)}
        found.pop(claim.pid, None)
        return list(found.values())

    def consumption(self) -> Consumption | None:
        """Return the usage of all descendants of the wrapper; None without any."""
        wrapper = self.wrapper()
        return consumption_of(wrapper.pid, list(_processes())) if wrapper else None

    def kill(self) -> None:
        """Kill everything but the wrapper, which then stores the exit code."""
        while members := [process for process in self.members() if is_alive(process)]:
            for process in members:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            for process in members:
                await_end(process, timeout_s=1)


def label_run(run: Path, labels: Mapping[str, str]) -> None:
    """Write `run.json`, which identifies the owner of the run's folder, unless it is there."""
    if run_labels(run) == dict(labels):
        return
    run.mkdir(parents=True, exist_ok=True)
    scratch = run / f"run.json.{uuid.uuid4().hex}"
    scratch.write_text(json.dumps(dict(labels)))
    scratch.replace(run / "run.json")


def run_labels(run: Path) -> dict[str, str]:
    """Return the run's labels; empty for a missing or foreign folder."""
    try:
        return dict(json.loads((run / "run.json").read_text()))
    except FileNotFoundError:
        return {}


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def await_end(process: psutil.Process, *, timeout_s: float) -> None:
    """Wait until the process ends, reaped or not: its parent may reap it late."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process.pid)
        try:
            select.select([descriptor], [], [], timeout_s)
        finally:
            os.close(descriptor)


def end_shell(claim: Path) -> None:
    """End the shell of a claim and all that it started; its parent does it while it lives."""
    if parent := claiming_process(claim):
        with contextlib.suppress(psutil.NoSuchProcess):
            parent.terminate()
            await_end(parent, timeout_s=5)
    for _ in range(_KILL_TRIES):
        if not (marked := _find_marked(claim.name)):
            break
        for process in marked:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        for process in marked:
            await_end(process, timeout_s=1)
    claim.unlink(missing_ok=True)


def _find_marked(shell_id: str) -> list[psutil.Process]:
    """Return the processes with the mark of a shell; those of other users are not looked into."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # it ended, or is another user's
            if process.environ().get(MARK) == shell_id:
                found.append(process)
    return found


def remove_unit(folder: UnitFolder) -> None:
    """Kill everything of a step, its shells too, and remove its folder."""
    for claim in folder.shells.glob("*"):
        end_shell(claim)
    folder.kill()
    if wrapper := folder.wrapper():
        with contextlib.suppress(psutil.Error):
            wrapper.kill()
            await_end(wrapper, timeout_s=5)
    shutil.rmtree(folder.path, ignore_errors=True)


def is_filled(path: Path) -> bool:
    """Return True once filled; one that was created without files may still be filled."""
    return path.exists() and not _empty_mark(path).exists()


def make_empty_workspace(path: Path) -> None:
    mark = _empty_mark(path)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    path.mkdir(parents=True, exist_ok=True)


def fill_workspace(path: Path, content: bytes) -> None:
    """Unpack the suite's files (tar+gzip); the shared directory is filled completely or not."""
    mark = _empty_mark(path)
    if mark.exists():  # jobs without files are in it
        write_suite_files(content, path)
        mark.unlink()
        return
    scratch = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    scratch.mkdir(parents=True)
    write_suite_files(content, scratch)
    scratch.rename(path)


def _empty_mark(path: Path) -> Path:
    return path.parents[1] / "without-files" / path.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """`cpu_s`: since the start, with what has ended and was waited for."""

    cpu_s: float
    memory_bytes: int


class ProcessStat(NamedTuple):
    """`reaped_s`: CPU time of its ended children."""

    pid: int
    parent: int
    cpu_s: float
    reaped_s: float
    resident_bytes: int


def consumption_of(wrapper: int, processes: Sequence[ProcessStat]) -> Consumption | None:
    known = {process.pid: process for process in processes}
    members = list(_descendants(wrapper, processes))
    if wrapper not in known or not members:
        return None
    ended_s = known[wrapper].reaped_s  # orphans of the step became its children
    return Consumption(
        cpu_s=ended_s + sum(each.cpu_s + each.reaped_s for each in members),
        memory_bytes=sum(each.resident_bytes for each in members),
    )


def _descendants(wrapper: int, processes: Sequence[ProcessStat]) -> Iterator[ProcessStat]:
    waiting: dict[int, list[ProcessStat]] = defaultdict(list)
    for process in processes:
        waiting[process.parent].append(process)
    open_pids = [wrapper]
    while open_pids:
        children = waiting.pop(open_pids.pop(), ())
        open_pids += [child.pid for child in children]
        yield from children


def _processes() -> Iterator[ProcessStat]:
    for pid in psutil.pids():
        with contextlib.suppress(OSError):  # it has ended
            yield parse_stat((_PROC / str(pid) / "stat").read_bytes())


def parse_stat(text: bytes) -> ProcessStat:
    """A line of `/proc/<pid>/stat`; the program's name in it may hold blanks and brackets."""
    pid = int(text[: text.index(b" ")])
    fields = text[text.rindex(b")") + 2 :].split()  # from the third field of proc(5) on
    return ProcessStat(
        pid=pid,
        parent=int(fields[1]),
        cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS,
        reaped_s=(int(fields[13]) + int(fields[14])) / _TICKS,
        resident_bytes=int(fields[21]) * _PAGE,
    )
