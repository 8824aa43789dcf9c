"""One step's folder on disk, and the processes that belong to it.

`<root>/runs/<run>/units/<name>/`: `unit.json` (labels), the files of `wrapper.py`, `artifacts/`,
`home/`;
`<root>/runs/<run>/run.json`: the labels of the run;
`<root>/runs/<run>/workspaces/<name>/`: a work directory, there only when it is complete, or, as
`<root>/runs/<run>/without-files/<name>` then says, while nobody has brought files.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import tarfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import psutil

from worker.domain.runtime import Unit, UnitState

KILLED: Final = 137
_CLOCK_SLACK_S: Final = 1.0


@dataclass(frozen=True)
class UnitFolder:
    path: Path

    @property
    def artifacts(self) -> Path:
        return self.path / "artifacts"

    @property
    def output(self) -> Path:
        return self.path / "output"

    @cached_property
    def labels(self) -> dict[str, str]:
        return dict(json.loads((self.path / "unit.json").read_text())["labels"])

    def is_there(self) -> bool:
        """Its labels are known from here on, though another thread may remove it."""
        try:
            return bool(self.labels)
        except (FileNotFoundError, NotADirectoryError):
            return False

    @cached_property
    def workspace(self) -> Path:
        name = json.loads((self.path / "unit.json").read_text())["workspace"]
        return self.path.parents[1] / "workspaces" / str(name)

    def make(self, labels: dict[str, str], workspace: str) -> None:
        for folder in (self.artifacts, self.path / "home"):
            folder.mkdir(parents=True, exist_ok=True)
        scratch = self.path / "unit.new"
        scratch.write_text(json.dumps({"labels": labels, "workspace": workspace}))
        scratch.replace(self.path / "unit.json")

    def unit(self) -> Unit:
        claim = self._claim()
        return Unit(
            id=str(self.path),
            name=self.path.name,
            state=self._state(claim),
            labels=self.labels,
            started_at=datetime.fromtimestamp(claim["time"], UTC) if claim else None,
        )

    def _state(self, claim: dict[str, Any] | None) -> UnitState:
        if claim is None:
            return UnitState.CREATED
        return UnitState.RUNNING if self.wrapper() and self.exit_code() is None else UnitState.ENDED

    def _claim(self) -> dict[str, Any] | None:
        try:
            return dict(json.loads((self.path / "pid").read_text()))
        except FileNotFoundError:
            return None

    def exit_code(self) -> int | None:
        try:
            return int((self.path / "exit").read_text())
        except FileNotFoundError:
            return None

    def wrapper(self) -> psutil.Process | None:
        """The process that claimed the folder: a later one of its pid began after the claim."""
        claim = self._claim()
        if claim is None:
            return None
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(claim["pid"])
            if process.create_time() <= claim["time"] + _CLOCK_SLACK_S and is_alive(process):
                return process
        return None

    def members(self) -> list[psutil.Process]:
        """The step's processes without its wrapper: its session, and who descends from it."""
        claim = self._claim()
        if claim is None:
            return []
        found = {process.pid: process for process in _session(claim["pid"])}
        if wrapper := self.wrapper():
            with contextlib.suppress(psutil.NoSuchProcess):
                found |= {process.pid: process for process in wrapper.children(recursive=True)}
        found.pop(claim["pid"], None)
        return list(found.values())

    def kill(self) -> None:
        """Everything but the wrapper, which then stores the exit code."""
        while members := [process for process in self.members() if is_alive(process)]:
            for process in members:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            for process in members:
                await_end(process, timeout_s=1)


def label_run(run: Path, labels: Mapping[str, str]) -> None:
    """`run.json`: whose the folder of a run is."""
    run.mkdir(parents=True, exist_ok=True)
    scratch = run / f"run.json.{uuid.uuid4().hex}"
    scratch.write_text(json.dumps(dict(labels)))
    scratch.replace(run / "run.json")


def run_labels(run: Path) -> dict[str, str]:
    """Empty for a folder that is not there, or not ours."""
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
    """Until it ended, reaped or not: its parent may take its time, where it is not a real init."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process.pid)
        try:
            select.select([descriptor], [], [], timeout_s)
        finally:
            os.close(descriptor)


def _session(leader: int) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == leader:
                yield process


def is_filled(path: Path) -> bool:
    """False as well for a work directory that was made without files: they may still come."""
    return path.exists() and not _empty_mark(path).exists()


def make_empty_workspace(path: Path) -> None:
    mark = _empty_mark(path)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    path.mkdir(parents=True, exist_ok=True)


def fill_workspace(path: Path, content: bytes) -> None:
    """Unpack the suite's files (tar+gzip); the work directory is filled completely or not."""
    mark = _empty_mark(path)
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        if mark.exists():  # jobs without files are in it
            archive.extractall(path, filter="data")
            mark.unlink()
            return
        scratch = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
        scratch.mkdir(parents=True)
        archive.extractall(scratch, filter="data")
    scratch.rename(path)


def _empty_mark(path: Path) -> Path:
    return path.parents[1] / "without-files" / path.name
