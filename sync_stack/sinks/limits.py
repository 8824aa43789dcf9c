"""Bounds of a sink's operations: time, and names that stay inside their destination."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Final

from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.sink import MAX_TIMEOUT_S, SinkError

READ_S: Final = 30.0  # a read fences nothing: it may take as long as the watcher gives it
_UNSAFE: Final = re.compile("[\0-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """`connect_s` + `answer_s` are at most one operation; no client may retry on top of it."""

    connect_s: float
    answer_s: float

    @classmethod
    def of(cls, datasource: Datasource) -> Timeouts:
        whole = min(datasource.timeout_s, MAX_TIMEOUT_S)
        connect = min(datasource.connect_timeout_s, whole / 2)
        return cls(connect_s=connect, answer_s=whole - connect)

    @property
    def operation_s(self) -> float:
        return self.connect_s + self.answer_s


class Deadline:
    """The end of one operation of the port that takes several requests."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        """Raises SinkError(sink_timeout) once it has passed."""
        if time.monotonic() >= self._end:
            raise SinkError("sink_timeout", "the operation took longer than its limit")


def check_name(name: str, *, limit: int = 1024) -> str:
    """Return a destination's name; raise SinkError(destination_invalid)."""
    if not name or _UNSAFE.search(name) or len(name.encode()) > limit:
        raise SinkError("destination_invalid", f"{name[:80]!r} is not a valid destination name")
    return name


def check_path(path: str, code: str) -> str:
    """Return a relative path with `/`; raise SinkError if a part is empty or leads upwards."""
    parts = path.split("/")
    if _UNSAFE.search(path) or "\\" in path or any(part in ("", ".", "..") for part in parts):
        raise SinkError(code, f"{path[:80]!r} is not a path inside the destination")
    return path
