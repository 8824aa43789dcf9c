"""The suites of this process with their evaluations.

Evaluations run on threads, each of which waits for child processes or for a registry, so that no
request waits for the evaluation of another suite.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Final

from apps.suites import conf
from apps.suites.dependencies.modules import modules_digest
from apps.suites.dependencies.resolution import Closure, Resolver
from apps.suites.domain.definition import DefinitionDocument, Suite, SuiteEvaluation, definition_of
from apps.suites.domain.flat_topology import ImportedSuite
from apps.suites.domain.package import REGISTRY
from apps.suites.evaluation.cache import EvaluationCache
from apps.suites.evaluation.snapshot import (
    LibrarySnapshot,
    StartedEvaluation,
    current_rules,
    lifetime_s,
)
from apps.suites.sources.index import SuiteIndex
from surfaces import HydratedSurfaces, hydrate

_HYDRATIONS_KEPT: Final = 256
_FOLDERS: Final = ("api/", "mock/")
_NOTHING: Final = HydratedSurfaces()


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedSuite:
    """A suite, its evaluation under its default profile and its API surfaces.

    Each is None while it is being made.
    """

    suite: Suite
    evaluation: SuiteEvaluation | None
    hydrated: HydratedSurfaces | None
    definition: DefinitionDocument

    @property
    def is_complete(self) -> bool:
        return self.evaluation is not None and self.hydrated is not None

    def is_of(
        self, suite: Suite, evaluation: SuiteEvaluation | None, hydrated: HydratedSurfaces | None
    ) -> bool:
        """Return whether it was made from just these."""
        made_from = (self.suite, self.evaluation, self.hydrated)
        return all(a is b for a, b in zip(made_from, (suite, evaluation, hydrated), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSuite:
    """An evaluated suite that holds while its snapshot and the modules that it loads are the same.

    `until` is of time.monotonic().
    """

    evaluated: EvaluatedSuite
    snapshot: LibrarySnapshot
    closure: Closure
    modules: str  # the digest of the modules that it and its imports load
    until: float

    @property
    def watched(self) -> frozenset[str]:
        """The ids of the suites that it consists of, but packages of registries."""
        local = (each.suite_id for each in self.closure.suites if each.source != REGISTRY)
        return frozenset({self.evaluated.suite.suite_id, *local})

    def is_valid(self) -> bool:
        """Return whether its time has not passed and its modules have not changed."""
        if self.until < time.monotonic():
            return False
        return self.modules == modules_digest([self.evaluated.suite, *self.closure.suites])

    def is_of(self, suite: Suite, snapshot: LibrarySnapshot) -> bool:
        """Return whether it was made from this suite, and from what it depends on as it is."""
        if self.evaluated.suite is not suite:
            return False
        alone = not suite.dependencies.entries and self.snapshot.rules == snapshot.rules
        return alone or self.snapshot is snapshot


@dataclass(frozen=True, slots=True, eq=False)
class _SuiteWork:
    """What is under way for a suite."""

    started: StartedEvaluation
    hydration: Future[HydratedSurfaces]
    modules: str  # the digest of the modules that it and its imports load

    @property
    def futures(self) -> list[Future[Any]]:
        return [self.started.future, self.hydration]


class Hydrations:
    """API surfaces, made on a thread of their own and kept by content. It is thread-safe.

    A list of suites waits for contracts no longer than for evaluations, since a large contract
    takes a second to read.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: OrderedDict[tuple[str, str, str], Future[HydratedSurfaces]] = OrderedDict()
        self._thread: ThreadPoolExecutor | None = None

    def start(self, suite: Suite | ImportedSuite) -> Future[HydratedSurfaces]:
        """Return the surfaces of this content, made or under way; none of an invalid package."""
        files: Mapping[str, bytes]
        if isinstance(suite, ImportedSuite):
            files = suite.files
        else:
            files = {} if suite.package_problem else suite.package.files
        if not any(path.startswith(_FOLDERS) for path in files):
            nothing: Future[HydratedSurfaces] = Future()
            nothing.set_result(_NOTHING)
            return nothing
        key = (suite.suite_id, suite.digest, conf.mock_base_url())
        with self._lock:
            if key in self._made and not self._made[key].cancelled():
                self._made.move_to_end(key)
                return self._made[key]
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "suite-hydration")
            future = self._thread.submit(hydrate, files, suite_id=suite.suite_id, base_url=key[2])
            self._made[key] = future
            while len(self._made) > _HYDRATIONS_KEPT:
                self._made.popitem(last=False)
            return future

    def close(self) -> None:
        """Cancel what has not started; a later call starts a new thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread:
            thread.shutdown(wait=False, cancel_futures=True)


class Library:
    """The suites, and what was made of each for as long as it holds. It is thread-safe.

    `patience_s` limits the time for which a list waits for changed files and evaluations. None, the
    value for commands and background work, means until they end (at most 20 s per suite, and 20 s
    for each package that has to be pulled).
    """

    def __init__(self) -> None:
        self.index = SuiteIndex()
        self._patience_s: float | None = None
        self._lock = threading.Lock()
        self._snapshot: LibrarySnapshot | None = None
        self._prepared: dict[str, PreparedSuite] = {}
        self._evaluations = EvaluationCache()
        self._hydrations = Hydrations()

    @property
    def patience_s(self) -> float | None:
        return self._patience_s

    @patience_s.setter
    def patience_s(self, seconds: float | None) -> None:
        self._patience_s = seconds
        self.index.rests = seconds is not None

    def suites(self) -> Sequence[Suite]:
        """Return the suites of all sources by id; read those that have changed."""
        return self.index.suites()

    def snapshot(self) -> LibrarySnapshot:
        """Return the suites and rules of now; the same snapshot as before if nothing changed."""
        suites, rules, last = self.index.suites(), current_rules(), self._snapshot
        if last is not None and last.suites is suites and last.rules == rules:
            return last
        resolver = Resolver(suites, ids=self.index.ids())
        self._snapshot = found = LibrarySnapshot(
            suites=suites, rules=rules, resolver=resolver, cache=self._evaluations
        )
        return found

    def evaluated_suites(self) -> list[EvaluatedSuite]:
        """Return every suite with its evaluation.

        A suite whose evaluation takes too long is returned as before its files changed; a new one
        has no evaluation.
        """
        until = None if self.patience_s is None else time.monotonic() + self.patience_s
        snapshot = self.snapshot()
        ready = {each.suite_id: self._find_ready(each, snapshot) for each in snapshot.suites}
        begun = {
            suite.suite_id: self._begin(suite, snapshot)
            for suite in snapshot.suites
            if ready[suite.suite_id] is None
        }
        wait(
            [future for work in begun.values() for future in work.futures],
            timeout=None if until is None else max(0.0, until - time.monotonic()),
        )
        with self._lock:
            for gone in self._prepared.keys() - ready.keys():
                self._prepared.pop(gone)
        return [
            ready[suite.suite_id] or self._prepare(suite, snapshot, begun[suite.suite_id])
            for suite in snapshot.suites
        ]

    def find_prepared(self, suite_id: str) -> EvaluatedSuite | None:
        """Find a suite that was evaluated before, if a look at its own files shows no change."""
        found = self._prepared.get(suite_id)
        if found is None or found.snapshot.rules != current_rules():
            return None
        holds = self.index.holds(found.snapshot.suites, found.watched)
        return found.evaluated if holds and found.is_valid() else None

    def evaluate(self, suite: Suite, *, within_s: float | None = None) -> EvaluatedSuite:
        """Evaluate a suite under its default profile, and wait, at most so long."""
        snapshot = self.snapshot()
        if (ready := self._find_ready(suite, snapshot)) and ready.is_complete:
            return ready
        work = self._begin(suite, snapshot)
        wait(work.futures, timeout=within_s)
        return self._prepare(suite, snapshot, work)

    def hydrate(self, suite: Suite | ImportedSuite) -> HydratedSurfaces:
        """Hydrate the API surfaces of a suite, and wait."""
        return self._hydrations.start(suite).result()

    def evaluation(self, suite: Suite, env: Mapping[str, str]) -> SuiteEvaluation:
        """Evaluate a suite under a profile env, and wait."""
        return self.snapshot().start(suite, env).future.result()

    def trial(self, suite: Suite) -> SuiteEvaluation:
        """Evaluate a suite that no source has yet, under its default profile, and wait."""
        return self.snapshot().start_default(suite).future.result()

    def close(self) -> None:
        """Cancel evaluations that have not started; a later call starts new threads."""
        self._evaluations.close()
        self._hydrations.close()

    def _find_ready(self, suite: Suite, snapshot: LibrarySnapshot) -> EvaluatedSuite | None:
        """Return what was prepared if it certainly still holds."""
        found = self._prepared.get(suite.suite_id)
        if found is None or not found.is_of(suite, snapshot):
            return None
        return found.evaluated if found.is_valid() else None

    def _begin(self, suite: Suite, snapshot: LibrarySnapshot) -> _SuiteWork:
        started = snapshot.start_default(suite)
        modules = modules_digest([suite, *started.closure.suites])
        return _SuiteWork(started, self._hydrations.start(suite), modules)

    def _prepare(self, suite: Suite, snapshot: LibrarySnapshot, work: _SuiteWork) -> EvaluatedSuite:
        """Return what has been made of a suite, or what it was before while that is not all."""
        known = self._prepared.get(suite.suite_id)
        before = known.evaluated if known else None
        future, closure = work.started.future, work.started.closure
        evaluation = future.result() if future.done() else None
        hydrated = work.hydration.result() if work.hydration.done() else None
        found = (suite, evaluation, hydrated)
        waits = before is not None and before.is_complete and None in found
        if before and (waits or before.is_of(*found)):
            evaluated = before
        else:
            evaluated = EvaluatedSuite(
                suite=suite,
                evaluation=evaluation,
                hydrated=hydrated,
                definition=definition_of(*found),
            )
        if snapshot.resolver.lists(suite):  # no other version of it, which was found on demand
            age_s = lifetime_s(evaluation, closure) if evaluation and hydrated else 0.0
            prepared = PreparedSuite(
                evaluated=evaluated,
                snapshot=snapshot,
                closure=closure,
                modules=work.modules,
                until=time.monotonic() + age_s,
            )
            with self._lock:
                self._prepared[suite.suite_id] = prepared
        return evaluated


library: Final = Library()
