"""The heartbeat of a claimed task, and the sink that needs it (reference: sync-stack 4.8)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Sequence
from types import TracebackType
from typing import Final, Protocol

from django.db import Error as StoreError
from django.db import close_old_connections, connection

from kernel.background import BackgroundThread
from sync_stack.core.sink import (
    Capabilities,
    Delete,
    Destination,
    Live,
    Owner,
    Put,
    Sink,
    TargetMarker,
    TargetPlace,
)
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.domain.identity import Claim
from sync_stack.orchestrator.services import task_transitions

log: Final = logging.getLogger(__name__)
PERIOD_S: Final = 5.0
TRUST_S: Final = 15.0  # after the start of the last beat that was taken
LIMIT_S: Final = 300.0
LAST_BEAT_S: Final = 320.0


class Stopping(Protocol):
    """An event of threads or of processes."""

    def is_set(self) -> bool: ...


class LostTask(Exception):
    """The task is no longer ours: nothing more may be done for it, not even undone."""


class Heartbeat:
    """Raises the row's `beat` from a thread of its own while the attempt runs.

    `check` comes before every sink operation. A restore may go on beyond the time limit, but not
    beyond the loss of the task.
    """

    def __init__(self, mine: Claim, *, begun: float, stopping: Stopping | None = None) -> None:
        self._mine = mine
        self._stopping = stopping
        self._started = self._last = begun
        self._refused = False
        self._end = threading.Event()
        self._thread = BackgroundThread(
            "beat",
            self._run,
            ended=self._end,
            after_failure=close_old_connections,
            title=f"beat-{mine.task_id}",
            longest_pause_s=PERIOD_S,
        )
        self.restoring = False

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()

    def check(self) -> None:
        """Raises LostTask; TaskError at the time limit or when the worker shuts down."""
        now = time.monotonic()
        if self._refused or now - self._last > TRUST_S:
            raise LostTask(self._mine.task_id)
        if self.restoring:
            return
        if now - self._started > LIMIT_S:
            raise TaskError("time_limit", f"not done within {LIMIT_S:g} s")
        if self._stopping is not None and self._stopping.is_set():
            raise TaskError("worker_lost", "the worker shuts down", uncounted=True)

    def refused(self) -> LostTask:
        """A conditional write on the task row was refused."""
        self._refused = True
        return LostTask(self._mine.task_id)

    def _run(self) -> None:
        try:
            while not self._end.wait(PERIOD_S) and not self._refused:
                begun = time.monotonic()
                if begun - self._started > LAST_BEAT_S:
                    return
                self._beat(begun)
        finally:
            connection.close()

    def _beat(self, begun: float) -> None:
        close_old_connections()
        try:
            taken = task_transitions.beat(self._mine)
        except StoreError as error:
            log.warning("no beat for task %s: %s", self._mine.task_id, type(error).__name__)
            return
        if taken:
            self._last = begun
        else:
            self._refused = True


class GuardedSink:
    """A sink on which no operation begins that the beat does not vouch for."""

    def __init__(self, sink: Sink, beat: Heartbeat) -> None:
        self._sink = sink
        self._beat = beat

    @property
    def capabilities(self) -> Capabilities:
        return self._sink.capabilities

    def destination(self, place: TargetPlace) -> Destination:
        return self._sink.destination(place)

    def record(self, place: TargetPlace, destination: Destination, key: str, file: str) -> str:
        return self._sink.record(place, destination, key, file)

    def read(self, destination: Destination, owner: Owner, records: Collection[str]) -> Live:
        self._beat.check()
        return self._sink.read(destination, owner, records)

    def write(self, destination: Destination, puts: Sequence[Put], mark: TargetMarker) -> None:
        self._beat.check()
        self._sink.write(destination, puts, mark)

    def delete(
        self, destination: Destination, deletes: Sequence[Delete], owner: Owner, generation: int
    ) -> None:
        self._beat.check()
        self._sink.delete(destination, deletes, owner, generation)

    def fence(self, destination: Destination, owner: Owner, generation: int) -> None:
        self._beat.check()
        self._sink.fence(destination, owner, generation)

    def close(self) -> None:
        """The sink belongs to the process."""
