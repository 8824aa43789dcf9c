"""Background work that outlives its errors: threads and asyncio tasks, watched in one place.

    thread = BackgroundThread("publisher", publish_all)        # publish_all returns at the end
    task = asyncio.create_task(keep_running("ping", ping_for_ever))

A body that raises is logged with its trace, counted under the loop's name and called again after
a pause, which doubles with each failure in a row. Until it runs again for a while, and for as long
as a thread is dead, `failing()` names it: readiness asks. KeyboardInterrupt, SystemExit and a
task's cancellation pass.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

log: Final = logging.getLogger("partita.background")
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 15.0
STEADY_S: Final = 5.0
Observer = Callable[[str, int], None]  # name of the loop, failures to add: 0 when it starts
_watched: Final[set[Watch]] = set()
_failures: Final[Counter[str]] = Counter()
_observers: Final[list[Observer]] = []
_changing = threading.Lock()


class Watch:
    """What is known of one loop. `name` comes from a closed list: it is a label of metrics."""

    def __init__(self, name: str, *, longest_pause_s: float | None = None) -> None:
        self.name = name
        self._longest_pause_s = longest_pause_s
        self._in_a_row = 0
        self._failed = self._dead = False
        self._running_since: float | None = None

    def begin(self) -> None:
        """Call before each run of the body."""
        self._running_since = time.monotonic()

    def working(self) -> None:
        """Say that the loop has done what it is for: it is not failing any more."""
        self._failed, self._in_a_row = False, 0

    def failed(self, error: Exception) -> float:
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

    def died(self) -> None:
        """Say that no body will run any more, though nobody ended it."""
        self._dead = True

    @property
    def is_failing(self) -> bool:
        return self._dead or (self._failed and not self._is_steady())

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
        try:
            while not self._succeeds():
                pass
        except BaseException:
            self.watch.died()
            raise
        forget(self.watch)

    def _succeeds(self) -> bool:
        """Run the body once; True when the loop is over."""
        try:
            self.watch.begin()
            self._body()
        except Exception as error:  # noqa: BLE001 - the edge of every thread: logged and counted
            return self._ended.wait(self._failed(error))
        return True

    def _failed(self, error: Exception) -> float:
        pause = self.watch.failed(error)
        if self._after_failure is not None:
            try:
                self._after_failure()
            except Exception as second:  # noqa: BLE001 - the same edge
                pause = self.watch.failed(second)
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

    def _periods(self) -> None:
        while self._is_due or not self._wait():
            self._is_due = True
            self._act()
            self._is_due = False
            self.watch.working()


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
) -> None:
    """Await `body()` until it returns, or the task is cancelled; run it again when it raises.

    Errors of `passing` are its caller's: they end it.
    """
    watch = Watch(name)
    register(watch)
    try:
        while True:
            try:
                watch.begin()
                await body()
            except passing:
                raise
            except Exception as error:  # noqa: BLE001 - the edge of every task: logged and counted
                pause = watch.failed(error)
            else:
                return
            await asyncio.sleep(pause)
    finally:
        forget(watch)


def failing() -> list[str]:
    """Return the names of the loops of this process that are dead or wait for another try."""
    with _changing:
        return sorted({watch.name for watch in _watched if watch.is_failing})


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
