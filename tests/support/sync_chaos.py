"""Attempts that are disturbed between any two of their operations, in a way that can be repeated.

A *point* is the moment before or after a write to the store, an operation of a sink on one record,
or a question to Git. A frame is one process at work; another one may begin inside a point of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from unittest import mock

from django.db import OperationalError, connection
from django.test import override_settings

from kernel import clock, ids
from sync_stack.core.sink import Delete, Destination, Live, Owner, Put, SinkError, TargetMarker
from sync_stack.orchestrator.services.execution import attempt, task_runner
from sync_stack.repositories import GitError
from tests.support.fake_sink import FakeSink

Plan = Sequence[tuple[int, str]]  # at the n-th point, this happens
ERRORS: Final[dict[str, tuple[str, Callable[[], Exception]]]] = {
    "sink fails": ("sink", lambda: SinkError("sink_unavailable", "as the history says")),
    "sink times out": ("sink done", lambda: SinkError("sink_timeout", "as the history says")),
    "git fails": ("git", lambda: GitError("git_unavailable", "as the history says")),
    "store fails": ("store", lambda: OperationalError("as the history says")),
}
BEGUN: Final = datetime(2026, 11, 22, tzinfo=UTC)
_WRITES: Final = ("INSERT", "UPDATE", "DELETE")


class Killed(BaseException):
    """The process ends here: nothing is tidied up."""


@dataclass
class Frame:
    """One process at work; `armed` errors strike at its next operation of their kind."""

    plan: dict[int, str]
    points: int = 0
    armed: list[str] = field(default_factory=list)


class Chaos:
    """`act` does what no error is: other workers, pushes, changes by hand, lost workers."""

    def __init__(self, act: Callable[[str], None]) -> None:
        self._act = act
        self._frames: list[Frame] = []
        self.away: set[str] = set()  # kinds of operations that fail until further notice
        self.now = 0.0  # of every process's own clock
        self.points = 0

    def process(self, plan: Plan, work: Callable[[], Any]) -> bool:
        """Run `work` as one process; False when it was killed."""
        self._frames.append(Frame(dict(plan)))
        try:
            work()
        except Killed:
            return False
        finally:
            self._frames.pop()
        return True

    @property
    def depth(self) -> int:
        return len(self._frames)

    def point(self, kind: str) -> None:
        """Raises Killed, or the error that is due."""
        if not self._frames:
            return
        frame = self._frames[-1]
        frame.points += 1
        self.points += 1
        due = frame.plan.pop(frame.points, "")
        if due == "kill":
            raise Killed
        if due in ERRORS:
            frame.armed.append(due)
        elif due:
            self._act(due)
        self._strike(frame, kind)

    def _strike(self, frame: Frame, kind: str) -> None:
        for name in [*frame.armed, *sorted(self.away)]:
            struck, error = ERRORS[name]
            if struck == kind:
                if name in frame.armed:
                    frame.armed.remove(name)
                raise error()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """The store's writes are points, clocks are ours, and ids sort by when they were made.

        No clock of the machine is read, so that a busy one changes nothing: a bucket of a histogram
        that is new costs a write, thus a point.
        """
        ticks = itertools.count(1_790_000_000_000)
        own_clock = mock.Mock(monotonic=lambda: self.now, perf_counter=lambda: self.now)
        instants = (BEGUN + timedelta(milliseconds=look) for look in itertools.count())
        stamps = mock.Mock(time_ns=lambda: next(ticks) * 1_000_000)
        with (
            connection.execute_wrapper(self._write),
            mock.patch.object(clock, "now", side_effect=instants),
            mock.patch.object(attempt, "time", own_clock),
            mock.patch.object(task_runner, "time", own_clock),
            mock.patch.object(attempt, "HEARTBEAT_S", 3600.0),
            mock.patch.object(ids, "time", stamps),
            override_settings(SYNC_RECONCILE_INTERVAL_S=0.0),  # after DEAD no pause
        ):
            yield

    def _write(self, execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        if not sql.startswith(_WRITES) or connection.in_atomic_block:
            return execute(sql, params, many, context)
        self.point("store")
        done = execute(sql, params, many, context)
        self.point("store done")
        return done


@dataclass(kw_only=True)
class Witness:
    """Told of every record that is written, and before one is deleted."""

    on_write: Callable[[Destination, str], None]
    on_delete: Callable[[Destination, str], None]


class DisturbedSink(FakeSink):
    """Every record is an operation of its own, and refused where a newer generation has been."""

    def __init__(self, layout: Any, chaos: Chaos, witness: Witness) -> None:
        super().__init__(layout)
        self._chaos, self._witness = chaos, witness

    def read(self, destination: Destination, owner: Owner, records: Any) -> Live:
        self._chaos.point("sink")
        found = super().read(destination, owner, records)
        self._chaos.point("sink done")
        return found

    def write(self, destination: Destination, puts: Sequence[Put], mark: TargetMarker) -> None:
        for put in puts:
            self._chaos.point("sink")
            super().write(destination, [put], mark)
            self._witness.on_write(destination, put.record)
            self._chaos.point("sink done")

    def delete(
        self, destination: Destination, deletes: Sequence[Delete], owner: Owner, generation: int
    ) -> None:
        for gone in deletes:
            self._chaos.point("sink")
            self._witness.on_delete(destination, gone.record)
            super().delete(destination, [gone], owner, generation)
            self._chaos.point("sink done")

    def fence(self, destination: Destination, owner: Owner, generation: int) -> None:
        self._chaos.point("sink")
        super().fence(destination, owner, generation)
        self._chaos.point("sink done")

    def drift_inside(self, destination: Destination, record: str, values: dict[str, str]) -> None:
        """Somebody edits a whole record; the marker stays, as it does in a document."""
        found = self._place(destination).records[record]
        version = str(next(self._versions))
        self._place(destination).records[record] = replace(found, values=values, version=version)
