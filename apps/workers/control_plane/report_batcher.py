"""One thread through which a supervisor reaches the store: pending reports share one call.

Reports that arrive while a transaction is open go into the next one, together with claims. A call
per change costs twelve times as much.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from apps.executions import api as executions
from kernel.background import BackgroundThread
from kernel.errors import PlatformError
from worker.domain.control_plane import ControlPlaneUnavailable


class FutureBridge:
    """`await bridge.result_of(future)`, always on the same event loop."""

    def __init__(self) -> None:
        self._resolved: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._is_scheduled = False

    async def result_of(self, future: Future[Any]) -> Any:
        """Return its result or raise its error. A cancellation here cancels the future too."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Any] = loop.create_future()
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


log = logging.getLogger("partita.workers")
POLL_INTERVAL_S: Final = 1.0  # without a nudge: nudges may be lost
WAIT_S: Final = 10.0  # then a claim is asked anew: how old its answer may be counts from there
LULL_S: Final = 0.002  # reports come in bursts: those that one answer set free go together,
BURST_S: Final = 0.01  # which wait for one another this long at most
STATE_LULLS: Final = 3  # so many lulls after states alone, for which nobody waits: the output of
STATE_BURST_S: Final = 0.03  # short steps follows at once, and one transaction serves for both
Exchange = Callable[..., executions.ReportBatchResult]
Answer = Future[Any]


@dataclass
class _PendingReports:
    states: list[tuple[executions.StateReport, Answer]] = field(default_factory=list)
    chunks: list[tuple[executions.LogChunk, Answer]] = field(default_factory=list)
    completions: list[tuple[executions.Completion, Answer]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.states or self.chunks or self.completions)

    @property
    def size(self) -> int:
        return len(self.states) + len(self.chunks) + len(self.completions)

    @property
    def has_states_only(self) -> bool:
        return bool(self.states) and not self.chunks and not self.completions

    @property
    def lulls(self) -> int:
        """How many lulls end a burst."""
        return STATE_LULLS if self.has_states_only else 1

    @property
    def burst_s(self) -> float:
        return STATE_BURST_S if self.has_states_only else BURST_S

    @property
    def futures(self) -> list[Answer]:
        return [future for _, future in [*self.states, *self.chunks, *self.completions]]


class ReportBatcher:
    """Futures resolve on this thread: with `Recorded`, or the PlatformError of that very report."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._changed = threading.Condition()
        self._waiting = _PendingReports()
        self._claim: tuple[int, Answer] | None = None
        self._claimed_since = 0.0
        self._work_may_wait = True
        self._polled_at = 0.0
        self._stopping = threading.Event()
        self._thread = BackgroundThread(
            "store", self._run, ended=self._stopping, longest_pause_s=POLL_INTERVAL_S
        )

    def start(self) -> None:
        self._thread.start()

    def state(self, report: executions.StateReport) -> Answer:
        return self._add(self._waiting_list("states"), report)

    def chunk(self, report: executions.LogChunk) -> Answer:
        return self._add(self._waiting_list("chunks"), report)

    def completion(self, report: executions.Completion) -> Answer:
        return self._add(self._waiting_list("completions"), report)

    def claim(self, limit: int) -> Answer:
        """Resolves with 1 to `limit` specs, when there are some; with none after WAIT_S."""
        future: Answer = Future()
        with self._changed:
            self._claim, self._claimed_since = (limit, future), time.monotonic()
            self._changed.notify()
        return future

    def work_may_wait(self) -> None:
        """A nudge: look for claimable steps now. From any thread."""
        with self._changed:
            self._work_may_wait = True
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopping.set()
            self._changed.notify()
        self._thread.join(5)

    def _waiting_list(self, name: str) -> Callable[[], list[tuple[Any, Answer]]]:
        return lambda: getattr(self._waiting, name)

    def _add(self, of: Callable[[], list[tuple[Any, Answer]]], report: Any) -> Answer:
        future: Answer = Future()
        with self._changed:
            of().append((report, future))
            self._changed.notify()
        return future

    def _run(self) -> None:
        while not self._stopping.is_set():
            waiting, claim, looks_around = self._next()
            if waiting or claim:
                self._settle(waiting, claim, looks_around=looks_around)

    def _next(self) -> tuple[_PendingReports, tuple[int, Answer] | None, bool]:
        """What goes into the next call, and whether its claim looks beyond the runs reported on.

        Waits until there is something.
        """
        with self._changed:
            self._changed.wait_for(self._is_due, timeout=self._patience_s())
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
            time.sleep(LULL_S)  # a wait for each report would wake this thread for each
            lulls = lulls + 1 if seen == self._waiting.size else 0
            seen = self._waiting.size

    def _is_due(self) -> bool:
        over = self._stopping.is_set()
        return bool(self._waiting) or over or self._should_claim(completing=False)

    def _should_claim(self, completing: bool) -> bool:  # noqa: FBT001 - private, two callers
        """What completes may free its dependants: they are claimed in the same transaction."""
        return self._claim is not None and (
            completing
            or self._work_may_wait
            or time.monotonic() - self._polled_at >= POLL_INTERVAL_S
        )

    def _patience_s(self) -> float | None:
        return POLL_INTERVAL_S if self._claim else None

    def _settle(
        self, waiting: _PendingReports, claim: tuple[int, Answer] | None, *, looks_around: bool
    ) -> None:
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
            self._fail(waiting, claim, error)  # reports are repeated
            raise

    def _hand_out(self, claim: tuple[int, Answer], claimed: Sequence[dict[str, Any]]) -> None:
        if claimed:
            if len(claimed) == claim[0]:
                self.work_may_wait()
            _set(claim[1], list(claimed))
            return
        if time.monotonic() - self._claimed_since >= WAIT_S:
            _set(claim[1], [])
            return
        with self._changed:  # goes on waiting, unless its caller asks anew meanwhile
            self._claim = self._claim or claim

    def _fail(
        self, waiting: _PendingReports, claim: tuple[int, Answer] | None, error: Exception
    ) -> None:
        away = ControlPlaneUnavailable(str(error) or type(error).__name__)
        for future in [*waiting.futures, *([claim[1]] if claim else [])]:
            _set(future, away)


def _resolve(reports: Sequence[tuple[Any, Answer]], answers: Sequence[Any]) -> None:
    for (_, future), answer in zip(reports, answers, strict=True):
        _set(future, answer)


def _set(future: Answer, value: Any) -> None:
    """Unless nobody waits any more: a step may be dropped at any moment."""
    if future.done() or not future.set_running_or_notify_cancel():
        return
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
