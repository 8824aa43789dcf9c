"""CPU time and memory of a step's processes, from one look at `/proc`."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import psutil

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


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


def consumption_of(wrapper: int) -> Consumption | None:
    """Of all that descends from the wrapper, but not of itself. None: there is nothing."""
    return consumed(wrapper, list(_processes()))


def consumed(wrapper: int, processes: Sequence[ProcessStat]) -> Consumption | None:
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
    waiting = _by_parent(processes)
    open_pids = [wrapper]
    while open_pids:
        children = waiting.pop(open_pids.pop(), ())
        open_pids += [child.pid for child in children]
        yield from children


def _by_parent(processes: Sequence[ProcessStat]) -> dict[int, Sequence[ProcessStat]]:
    children: dict[int, list[ProcessStat]] = defaultdict(list)
    for process in processes:
        children[process.parent].append(process)
    return dict(children)


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
