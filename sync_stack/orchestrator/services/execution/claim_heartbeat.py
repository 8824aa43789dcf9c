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

from kernel.background import BackgroundThread, one_cycle, report_error
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
HEARTBEAT_S: Final = 5.0
TRUST_S: Final = 15.0  # since the start of the last accepted heartbeat
LIMIT_S: Final = 300.0
LAST_HEARTBEAT_S: Final = 320.0


class Stopping(Protocol):
    """An event of threads or of processes that is set at shutdown."""

    def is_set(self) -> bool: ...


class LostTask(Exception):
    """The claim was lost: nothing more may be written for the task, nor restored."""


class Heartbeat:
    """Raise the heartbeat of a claimed task from a thread of its own while the attempt runs.

    `check` precedes every sink operation. A restore may exceed the time limit, but ends when the
    claim is lost.
    """

    def __init__(self, claim: Claim, *, begun: float, stopping: Stopping | None = None) -> None:
        self._mine = claim
        self._stopping = stopping
        self._started = self._last = begun
        self._refused = False
        self._end = threading.Event()
        self._thread = BackgroundThread(
            "beat",
            self._run,
            ended=self._end,
            after_failure=close_old_connections,
            title=f"beat-{claim.task_id}",
            longest_pause_s=HEARTBEAT_S,
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
        """Raise LostTask, or TaskError at the time limit or when the worker shuts down."""
        now = time.monotonic()
        if self._refused or now - self._last > TRUST_S:
            raise LostTask(self._mine.task_id)
        if self.restoring:
            return
        if now - self._started > LIMIT_S:
            raise TaskError("time_limit", f"the attempt did not end within {LIMIT_S:g} s")
        if self._stopping is not None and self._stopping.is_set():
            raise TaskError("worker_lost", "the worker is shutting down", uncounted=True)

    def note_refusal(self) -> LostTask:
        """Note that a conditional write of the task row was refused; return the error to raise."""
        self._refused = True
        return LostTask(self._mine.task_id)

    def _run(self) -> None:
        try:
            while not self._end.wait(HEARTBEAT_S) and not self._refused:
                begun = time.monotonic()
                if begun - self._started > LAST_HEARTBEAT_S:
                    return
                with one_cycle():
                    self._beat(begun)
        finally:
            connection.close()

    def _beat(self, begun: float) -> None:
        close_old_connections()
        try:
            taken = task_transitions.record_heartbeat(self._mine)
        except StoreError as error:
            log.warning("no heartbeat for task %s: %s", self._mine.task_id, type(error).__name__)
            report_error()
            return
        if taken:
            self._last = begun
        else:
            self._refused = True


class GuardedSink:
    """A sink that checks the heartbeat before each operation."""

    def __init__(self, sink: Sink, heartbeat: Heartbeat) -> None:
        self._sink = sink
        self._beat = heartbeat

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

    def write(self, destination: Destination, puts: Sequence[Put], marker: TargetMarker) -> None:
        self._beat.check()
        self._sink.write(destination, puts, marker)

    def delete(
        self, destination: Destination, deletes: Sequence[Delete], owner: Owner, generation: int
    ) -> None:
        self._beat.check()
        self._sink.delete(destination, deletes, owner, generation)

    def fence(self, destination: Destination, owner: Owner, generation: int) -> None:
        self._beat.check()
        self._sink.fence(destination, owner, generation)

    def close(self) -> None:
        """Do nothing: the sink belongs to the process."""
