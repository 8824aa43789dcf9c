"""The suites of this process with their evaluations.

Evaluations run on threads, each of which waits for child processes or for a registry, so that no
request waits for the evaluation of another suite.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, Final

from apps.suites.dependencies.modules import modules_digest
from apps.suites.dependencies.resolution import Resolver
from apps.suites.domain.definition import Suite, SuiteEvaluation, definition_of
from apps.suites.domain.flat_topology import ImportedSuite
from apps.suites.evaluation.cache import EvaluationCache
from apps.suites.evaluation.evaluated_suites import EvaluatedSuite, PreparedSuite
from apps.suites.evaluation.hydration import Hydrations
from apps.suites.evaluation.snapshot import (
    LibrarySnapshot,
    StartedEvaluation,
    current_rules,
    lifetime_s,
)
from apps.suites.sources.index import SuiteIndex
from surfaces import HydratedSurfaces


@dataclass(frozen=True, slots=True, eq=False)
class _SuiteWork:
    """What is under way for a suite."""

    started: StartedEvaluation
    hydration: Future[HydratedSurfaces]
    modules: str  # the digest of the modules that it and its imports load

    @property
    def futures(self) -> list[Future[Any]]:
        return [self.started.future, self.hydration]


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
