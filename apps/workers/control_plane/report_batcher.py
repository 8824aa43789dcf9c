"""One thread through which a supervisor reaches the store: pending reports share one call.

Reports that arrive while a transaction is open go into the next one, together with claims. A call
per change costs twelve times as much.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from apps.executions import api as executions
from kernel.agent_protocol import Completion, LogChunk, Report, StateReport, StepSpecBody
from kernel.background import BackgroundThread
from kernel.errors import PlatformError
from worker.domain.control_plane import ControlPlaneUnavailable

T = TypeVar("T")
POLL_INTERVAL_S: Final = 1.0  # without a nudge: nudges may be lost
WAIT_S: Final = 10.0  # after it a claim is answered with nothing, and its caller claims again
LULL_S: Final = 0.002  # a burst of reports ends with a lull, and takes at most BURST_S
BURST_S: Final = 0.01
STATE_LULLS: Final = 3  # states alone wait longer: the output of a short step follows at once, and
STATE_BURST_S: Final = 0.03  # one transaction then serves both
Exchange = Callable[..., executions.ReportBatchResult]
Answer = Future[executions.Recorded]
Claim = tuple[int, Future[Sequence[StepSpecBody]]]  # steps at most, and the answer


class FutureBridge:
    """Awaits futures of another thread; wakes the event loop once for all that resolve together.

    `asyncio.wrap_future` wakes the loop for each future. A report batch resolves about thirty, and
    the two threads then compete for the interpreter thirty times.
    """

    def __init__(self) -> None:
        self._resolved: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._is_scheduled = False

    async def result_of(self, future: Future[T]) -> T:
        """Return its result or raise its error. A cancellation here cancels the future too."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[T] = loop.create_future()
        future.add_done_callback(partial(self._resolve_soon, loop, waiter))
        try:
            return await waiter
        finally:
            future.cancel()  # has no effect on a future that is resolved

    def _resolve_soon(
        self, loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[Any], future: Future[Any]
    ) -> None:
        self._resolved.append((waiter, future))
        if not self._is_scheduled and not loop.is_closed():
            self._is_scheduled = True
            loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        self._is_scheduled = False  # first: a future that resolves from now on schedules again
        while self._resolved:
            waiter, future = self._resolved.popleft()
            if waiter.done():
                continue
            if error := future.exception():
                waiter.set_exception(error)
            else:
                waiter.set_result(future.result())


@dataclass
class _PendingReports:
    states: list[tuple[StateReport, Answer]] = field(default_factory=list)
    chunks: list[tuple[LogChunk, Answer]] = field(default_factory=list)
    completions: list[tuple[Completion, Answer]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.states or self.chunks or self.completions)

    def add(self, report: Report, future: Answer) -> None:
        match report:
            case StateReport():
                self.states.append((report, future))
            case LogChunk():
                self.chunks.append((report, future))
            case Completion():
                self.completions.append((report, future))

    @property
    def size(self) -> int:
        return len(self.states) + len(self.chunks) + len(self.completions)

    @property
    def has_states_only(self) -> bool:
        return bool(self.states) and not self.chunks and not self.completions

    @property
    def lulls(self) -> int:
        """Return how many lulls end a burst."""
        return STATE_LULLS if self.has_states_only else 1

    @property
    def burst_s(self) -> float:
        return STATE_BURST_S if self.has_states_only else BURST_S

    @property
    def futures(self) -> list[Answer]:
        return [future for _, future in [*self.states, *self.chunks, *self.completions]]


class ReportBatcher:
    """Its futures resolve on its thread, with `Recorded` or the report's own PlatformError."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._changed = threading.Condition()
        self._waiting = _PendingReports()
        self._claim: Claim | None = None
        self._claimed_since = 0.0
        self._work_may_wait = True
        self._polled_at = 0.0
        self._stopping = threading.Event()
        self._thread = BackgroundThread(
            "store", self._run, ended=self._stopping, longest_pause_s=POLL_INTERVAL_S
        )

    def start(self) -> None:
        self._thread.start()

    def add(self, report: Report) -> Answer:
        future: Answer = Future()
        with self._changed:
            self._waiting.add(report, future)
            self._changed.notify()
        return future

    def claim(self, limit: int) -> Future[Sequence[StepSpecBody]]:
        """Return a future for 1 to `limit` specs; it resolves with none after WAIT_S."""
        future: Future[Sequence[StepSpecBody]] = Future()
        with self._changed:
            self._claim, self._claimed_since = (limit, future), time.monotonic()
            self._changed.notify()
        return future

    def work_may_wait(self) -> None:
        """Look for claimable steps now. Callable on any thread."""
        with self._changed:
            self._work_may_wait = True
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopping.set()
            self._changed.notify()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stopping.is_set():
            waiting, claim, looks_around = self._next()
            if waiting or claim:
                self._send(waiting, claim, looks_around=looks_around)

    def _next(self) -> tuple[_PendingReports, Claim | None, bool]:
        """Wait for reports or a due claim; return them, and if the claim looks at all runs."""
        with self._changed:
            self._changed.wait_for(self._is_due, timeout=POLL_INTERVAL_S if self._claim else None)
        self._wait_for_burst()
        with self._changed:
            waiting, self._waiting = self._waiting, _PendingReports()
            claim = self._claim if self._should_claim(bool(waiting.completions)) else None
            looks_around = self._should_claim(completing=False)
            if claim:
                self._claim = None
                if looks_around:
                    self._work_may_wait, self._polled_at = False, time.monotonic()
            return waiting, claim, looks_around

    def _wait_for_burst(self) -> None:
        began, seen, lulls = time.monotonic(), self._waiting.size, 0
        while lulls < self._waiting.lulls and time.monotonic() - began < self._waiting.burst_s:
            time.sleep(LULL_S)  # waiting for each report would wake this thread each time
            lulls = lulls + 1 if seen == self._waiting.size else 0
            seen = self._waiting.size

    def _is_due(self) -> bool:
        over = self._stopping.is_set()
        return bool(self._waiting) or over or self._should_claim(completing=False)

    def _should_claim(self, completing: bool) -> bool:  # noqa: FBT001 - private, two callers
        """Return True if a claim is due. Completions may free dependents: it goes with them."""
        return self._claim is not None and (
            completing
            or self._work_may_wait
            or time.monotonic() - self._polled_at >= POLL_INTERVAL_S
        )

    def _send(self, waiting: _PendingReports, claim: Claim | None, *, looks_around: bool) -> None:
        try:
            answer = self._exchange(
                states=[report for report, _ in waiting.states],
                chunks=[report for report, _ in waiting.chunks],
                completions=[report for report, _ in waiting.completions],
                claims=claim[0] if claim else 0,
                looks_around=looks_around,
            )
            _resolve(waiting.states, answer.states)
            _resolve(waiting.chunks, answer.chunks)
            _resolve(waiting.completions, answer.completions)
            if claim:
                self._hand_out(claim, answer.claimed)
        except PlatformError as error:
            self._fail(waiting, claim, error)
        except Exception as error:
            self._fail(waiting, claim, error)  # callers repeat their reports
            raise

    def _hand_out(self, claim: Claim, claimed: Sequence[StepSpecBody]) -> None:
        if claimed:
            if len(claimed) == claim[0]:
                self.work_may_wait()
            _set(claim[1], list(claimed))
            return
        if time.monotonic() - self._claimed_since >= WAIT_S:
            _set(claim[1], [])
            return
        with self._changed:  # keep waiting, unless the caller has claimed again
            self._claim = self._claim or claim

    def _fail(self, waiting: _PendingReports, claim: Claim | None, error: Exception) -> None:
        unavailable = ControlPlaneUnavailable(str(error) or type(error).__name__)
        for future in waiting.futures:
            _set(future, unavailable)
        if claim:
            _set(claim[1], unavailable)


def _resolve(
    reports: Sequence[tuple[Report, Answer]], answers: Sequence[executions.Recorded | PlatformError]
) -> None:
    for (_, future), answer in zip(reports, answers, strict=True):
        _set(future, answer)


def _set(future: Future[T], value: T | Exception) -> None:
    """Resolve the future unless it is canceled: a step may be dropped at any moment."""
    if future.done() or not future.set_running_or_notify_cancel():
        return
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
