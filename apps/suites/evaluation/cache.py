"""A cache of evaluations: key -> future. Each is made once, whoever asks and however many."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Literal

from apps.streams.api import then_disconnect
from apps.suites.domain.definition import SuiteEvaluation
from apps.suites.evaluator.process import CHILDREN

CACHED_EVALUATIONS: Final = 512

# Pools of their own: a slow registry does not delay suites without packages, and an import that is
# evaluated ahead does not wait behind suites that a list asks for.
Pool = Literal["whole", "ahead", "pulling"]
_THREADS: Final[Mapping[Pool, int]] = {"whole": CHILDREN, "ahead": CHILDREN, "pulling": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """What a job returns: an evaluation, for how many seconds it holds, and under which key.

    `key` is "" for the key that it was asked for.
    """

    evaluation: SuiteEvaluation
    lifetime_s: float
    key: str = ""


Job = Callable[[], JobResult]


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """A job under way. One thread claims it, which runs or cancels it."""

    job: Job
    future: Future[SuiteEvaluation] = field(default_factory=Future)
    _claims: threading.Lock = field(default_factory=threading.Lock)

    def claim(self) -> bool:
        """Return whether the caller is the first that claims it."""
        return self._claims.acquire(blocking=False)


@dataclass(frozen=True, slots=True)
class _Kept:
    evaluation: SuiteEvaluation
    until: float  # of time.monotonic()


class EvaluationCache:
    """Evaluations, done or under way, by their key. It is thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._tasks: dict[str, _Task] = {}
        self._pools: dict[Pool, ThreadPoolExecutor] = {}

    def start(self, key: str, job: Job, pool: Pool) -> Future[SuiteEvaluation]:
        """Return the evaluation of a key; without one, run the job on a thread of the pool."""
        with self._lock:
            if known := self._find(key):
                return ended_future(known)
            task = self._tasks.get(key)
            if task is None:
                task = self._tasks[key] = _Task(job)
                self._executor(pool).submit(self._run, key, task, then_disconnect)
            return task.future

    def get(self, key: str, job: Job) -> SuiteEvaluation:
        """Return the evaluation of a key, and wait.

        A job that no thread has begun runs on this one, so that nobody waits for a queue. One that
        has begun is waited for: it must not wait for the caller.
        """
        with self._lock:
            if known := self._find(key):
                return known
            task = self._tasks.setdefault(key, _Task(job))
        self._run(key, task, lambda work: work())
        return task.future.result()

    def close(self) -> None:
        """Cancel what has not begun; a later call starts new threads."""
        with self._lock:
            pools, self._pools = self._pools, {}
            for key in [key for key, task in self._tasks.items() if task.claim()]:
                future = self._tasks.pop(key).future
                future.cancel()
                future.set_running_or_notify_cancel()  # tells those who wait
        for pool in pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    def _find(self, key: str) -> SuiteEvaluation | None:
        kept = self._kept.get(key)
        if kept is None or kept.until <= time.monotonic():
            return None
        self._kept.move_to_end(key)
        return kept.evaluation

    def _executor(self, pool: Pool) -> ThreadPoolExecutor:
        if pool not in self._pools:
            self._pools[pool] = ThreadPoolExecutor(_THREADS[pool], f"suite-evaluation-{pool}")
        return self._pools[pool]

    def _run(self, key: str, task: _Task, call: Callable[[Job], JobResult]) -> None:
        """Run a task and keep its result, unless another thread has claimed it."""
        if not task.claim():
            return
        try:
            result = call(task.job)
        except BaseException as error:  # noqa: BLE001 - whoever waits for the future gets it
            with self._lock:
                self._tasks.pop(key, None)
            task.future.set_exception(error)
            return
        with self._lock:
            self._tasks.pop(key, None)
            kept_as = result.key or key
            self._kept[kept_as] = _Kept(result.evaluation, time.monotonic() + result.lifetime_s)
            self._kept.move_to_end(kept_as)
            while len(self._kept) > CACHED_EVALUATIONS:
                self._kept.popitem(last=False)
        task.future.set_result(result.evaluation)


def ended_future(evaluation: SuiteEvaluation) -> Future[SuiteEvaluation]:
    """Return a future that has its result."""
    future: Future[SuiteEvaluation] = Future()
    future.set_result(evaluation)
    return future
