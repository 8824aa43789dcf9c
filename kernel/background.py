"""Background work that outlives its errors: threads and asyncio tasks, watched in one place.

    thread = BackgroundThread("publisher", publish_all)        # publish_all returns at the end
    task = asyncio.create_task(keep_running("ping", ping_for_ever))

A body that raises is logged with its trace, counted under the loop's name and called again after
a pause, which doubles with each failure in a row. Until it runs again for a while, and for as long
as a thread is dead, `failing()` names it: readiness asks. KeyboardInterrupt, SystemExit and a
task's cancellation pass.

Code that a loop calls may catch an error and go on, with the last settings for example. It says so
with `report_error(error)`, wherever it is, and a loop that works in cycles runs each in
`one_cycle()`. Errors that persist for PERSISTENT_S count as a failing loop, too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf
from typing import Final

log: Final = logging.getLogger("partita.background")
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 15.0
STEADY_S: Final = 5.0
PERSISTENT_S: Final = 5.0  # of reported errors, without a cycle that had none
FORGOTTEN_S: Final = 60.0  # after the last reported error, but in a PeriodicThread
Observer = Callable[[str, int], None]  # name of the loop, failures to add: 0 when it starts
_watched: Final[set[Watch]] = set()
_failures: Final[Counter[str]] = Counter()
_observers: Final[list[Observer]] = []
_current: Final[ContextVar[Watch | None]] = ContextVar("background_watch", default=None)
_changing = threading.Lock()


@dataclass(slots=True)
class _ReportedErrors:
    """The errors of one kind that a loop reported; times are of time.monotonic()."""

    since: float = inf  # of the first one after the last good cycle
    last: float = -inf
    in_cycle: bool = False

    def add(self, now: float) -> None:
        self.since, self.last, self.in_cycle = min(self.since, now), now, True

    def end_cycle(self) -> None:
        if not self.in_cycle:
            self.since = inf
        self.in_cycle = False

    def persist(self, now: float, forgotten_s: float) -> bool:
        if now - self.last >= forgotten_s:
            self.since = inf
        return now - self.since >= PERSISTENT_S


class Watch:
    """What is known of one loop. `name` comes from a closed list: it is a label of metrics."""

    def __init__(self, name: str, *, longest_pause_s: float | None = None) -> None:
        self.name = name
        self._longest_pause_s = longest_pause_s
        self._in_a_row = 0
        self._failed = self._dead = False
        self.is_periodic = False  # then the next cycle alone says that it works again
        self._running_since: float | None = None
        self._errors, self._optional_errors = _ReportedErrors(), _ReportedErrors()

    def begin(self) -> None:
        """Call before each run of the body."""
        self._running_since = time.monotonic()

    def working(self) -> None:
        """Say that the loop has done what it is for: it is not failing any more."""
        self._failed, self._in_a_row = False, 0

    def record_failure(self, error: Exception) -> float:
        """Log and count an error of the body; return the pause before the next run, in seconds."""
        if self._is_steady():
            self._in_a_row = 0
        longest = LONGEST_PAUSE_S if self._longest_pause_s is None else self._longest_pause_s
        pause = min(longest, FIRST_PAUSE_S * 2.0 ** min(self._in_a_row, 10))
        pause *= random.uniform(0.5, 1)  # noqa: S311 - spreads load
        self._failed, self._running_since = True, None
        self._in_a_row += 1
        log.error(
            "background loop %s failed, it runs again in %.1f s",
            self.name,
            pause,
            exc_info=error,
            extra={"event": "background_failed", "loop": self.name},
        )
        _observe(self.name, 1)
        return pause

    def record_death(self) -> None:
        """Note that no body will run any more, though nobody ended it."""
        self._dead = True

    @contextmanager
    def one_cycle(self) -> Iterator[None]:
        """Run one cycle of the loop in this block; without an error in it, the loop works."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)
        if not self._errors.in_cycle:
            self.working()
        self._errors.end_cycle()
        self._optional_errors.end_cycle()

    def report_error(self, *, optional: bool = False) -> None:
        """Note an error that the body caught. `optional`: of a part that nothing stops without."""
        (self._optional_errors if optional else self._errors).add(time.monotonic())

    @property
    def is_failing(self) -> bool:
        if self._dead or (self._failed and not self._is_steady()):
            return True
        return self._errors.persist(time.monotonic(), self._forgotten_s)

    @property
    def is_degraded(self) -> bool:
        """Return whether a part that the loop can do without keeps failing."""
        return self._optional_errors.persist(time.monotonic(), self._forgotten_s)

    @property
    def _forgotten_s(self) -> float:
        return inf if self.is_periodic else FORGOTTEN_S

    def _is_steady(self) -> bool:
        since = self._running_since
        return since is not None and time.monotonic() - since >= STEADY_S


class BackgroundThread:
    """A daemon thread that calls `body` until it returns.

    `ended`: set by whoever stops the loop; a pause between two runs ends with it. `after_failure`
    runs before the next run, to close broken connections for example. `title` names the thread
    where several have one loop's name. `longest_pause_s`: for one that others wait for; else 15.
    """

    def __init__(
        self,
        name: str,
        body: Callable[[], object],
        *,
        ended: threading.Event | None = None,
        after_failure: Callable[[], object] | None = None,
        title: str = "",
        longest_pause_s: float | None = None,
    ) -> None:
        self._body = body
        self._ended = ended or threading.Event()
        self._after_failure = after_failure
        self.watch = Watch(name, longest_pause_s=longest_pause_s)
        self._thread = threading.Thread(target=self._run, name=title or name, daemon=True)

    def start(self) -> None:
        """Raise RuntimeError when it was started before."""
        register(self.watch)
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the end of a thread that was started; does not end it."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def end(self) -> None:
        """Set `ended`; the body has to look at it."""
        self._ended.set()

    def _run(self) -> None:
        _current.set(self.watch)
        try:
            while not self._succeeds():
                pass
        except BaseException:
            self.watch.record_death()
            raise
        forget(self.watch)

    def _succeeds(self) -> bool:
        """Run the body once; True when the loop is over."""
        try:
            self.watch.begin()
            self._body()
        except Exception as error:  # noqa: BLE001 - the edge of every thread: logged and counted
            return self._ended.wait(self._record_failure(error))
        return True

    def _record_failure(self, error: Exception) -> float:
        pause = self.watch.record_failure(error)
        if self._after_failure is not None:
            try:
                self._after_failure()
            except Exception as second:  # noqa: BLE001 - the same edge
                pause = self.watch.record_failure(second)
        return pause


class PeriodicThread(BackgroundThread):
    """A thread that calls `act` after each `wait()` until that returns True.

    An `act` that raised is called again after the pause, however long the period is, and the loop
    counts as failing until one passes.
    """

    def __init__(
        self,
        name: str,
        act: Callable[[], object],
        wait: Callable[[], bool],
        *,
        ended: threading.Event | None = None,
        after_failure: Callable[[], object] | None = None,
        title: str = "",
    ) -> None:
        super().__init__(name, self._periods, ended=ended, after_failure=after_failure, title=title)
        self._act = act
        self._wait = wait
        self._is_due = False
        self.watch.is_periodic = True

    def _periods(self) -> None:
        while self._is_due or not self._wait():
            self._is_due = True
            with self.watch.one_cycle():
                self._act()
            self._is_due = False


class Delayed(PeriodicThread):
    """A thread that calls `act` once, after `seconds` unless it is ended before."""

    def __init__(
        self,
        name: str,
        seconds: float,
        act: Callable[[], object],
        *,
        after_failure: Callable[[], object] | None = None,
    ) -> None:
        ended = threading.Event()
        self._seconds = seconds
        super().__init__(name, act, self._is_over, ended=ended, after_failure=after_failure)

    def _is_over(self) -> bool:
        seconds, self._seconds = self._seconds, -1.0
        return seconds < 0 or self._ended.wait(seconds)


async def keep_running(
    name: str,
    body: Callable[[], Awaitable[object]],
    *,
    passing: tuple[type[Exception], ...] = (),
    longest_pause_s: float | None = None,
) -> None:
    """Await `body()` until it returns, or the task is cancelled; run it again when it raises.

    Errors of `passing` are its caller's: they end it.
    """
    watch = Watch(name, longest_pause_s=longest_pause_s)
    register(watch)
    token = _current.set(watch)
    try:
        while True:
            try:
                watch.begin()
                await body()
            except passing:
                raise
            except Exception as error:  # noqa: BLE001 - the edge of every task: logged and counted
                pause = watch.record_failure(error)
            else:
                return
            await asyncio.sleep(pause)
    finally:
        _current.reset(token)
        forget(watch)


def failing() -> list[str]:
    """Return the names of the loops of this process that are dead or wait for another try."""
    with _changing:
        return sorted({watch.name for watch in _watched if watch.is_failing})


def degraded_loops() -> list[str]:
    """Return the names of the loops that keep failing at a part which they can do without."""
    with _changing:
        return sorted({watch.name for watch in _watched if watch.is_degraded})


def in_trouble() -> list[str]:
    """Return the names of the failing and of the degraded loops."""
    return sorted({*failing(), *degraded_loops()})


def report_error(*, optional: bool = False) -> None:
    """Note an error that was caught below the loop which the caller works for, if it is one.

    Call it wherever work for a loop goes on after an error of the store, Redis, the broker, a
    registry or the orchestrator. `optional`: nothing stops without that part (Redis, the broker).
    """
    if (watch := _current.get()) is not None:
        watch.report_error(optional=optional)


@contextmanager
def one_cycle() -> Iterator[None]:
    """Run one cycle of the loop that the caller works for; see `Watch.one_cycle`."""
    watch = _current.get()
    if watch is None:
        yield
        return
    with watch.one_cycle():
        yield


def running() -> list[str]:
    """Return the names of the loops of this process, one entry a thread or task."""
    with _changing:
        return sorted(watch.name for watch in _watched)


def failures() -> dict[str, int]:
    """Return how often each loop of this process has failed, by name; 0 for one that never has."""
    with _changing:
        return dict(_failures)


def observe(observer: Observer) -> None:
    """Tell `observer` of each failure, and of each loop at its start, from the failing thread."""
    if observer not in _observers:
        _observers.append(observer)


def register(watch: Watch) -> None:
    """Name the loop in `failing()` and `running()`: for one that nothing of this module runs."""
    with _changing:
        _watched.add(watch)
        _failures[watch.name] += 0
    _observe(watch.name, 0)


def forget(watch: Watch) -> None:
    """Say that the loop is over."""
    with _changing:
        _watched.discard(watch)


def _observe(name: str, count: int) -> None:
    if count:
        with _changing:
            _failures[name] += count
    for observer in _observers:
        observer(name, count)


def _after_fork() -> None:
    """A child has none of its parent's threads."""
    global _changing  # noqa: PLW0603 - another thread may have held it
    _changing = threading.Lock()
    _watched.clear()
    _failures.clear()


os.register_at_fork(after_in_child=_after_fork)
