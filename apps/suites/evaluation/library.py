"""The suites of this process with their evaluations, each made once per content.

Evaluations run on threads, each of which waits for child processes or for a registry, so that no
request waits for the evaluation of another suite. Results are cached by content and profile env.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Final

from apps.profiles.api import ProfileInvalid, select_profile
from apps.streams.api import then_disconnect
from apps.suites import conf
from apps.suites.dependencies.modules import loadable_modules, modules_digest, unreachable_module
from apps.suites.dependencies.resolution import Closure, Resolver
from apps.suites.domain.definition import Suite, SuiteEvaluation, definition_of
from apps.suites.domain.dependencies import Pin
from apps.suites.domain.flat_topology import ImportedSuite
from apps.suites.domain.package import REGISTRY, TOPOLOGY_FILE
from apps.suites.domain.problems import TopologyProblem
from apps.suites.evaluation.composition import Composition, profile_of
from apps.suites.evaluation.evaluated_suites import (
    Basis,
    EvaluatedSuite,
    PreparedSuite,
    Work,
    evaluation_of,
)
from apps.suites.evaluation.hydration import Hydrations
from apps.suites.evaluator.process import CHILDREN, run_evaluator
from apps.suites.sources.index import Shelf
from apps.suites.sources.registry_packages import TAG_KEPT_S
from surfaces import HydratedSurfaces

CACHED_EVALUATIONS: Final = 512
KILLED_CACHED_S: Final = 60.0
UNREACHABLE_CACHED_S: Final = 15.0
PULLS: Final = 4  # evaluations at once that wait for registries
_OWN: Final = "own"  # the key of an evaluation without imports
_FOREVER: Final = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedEvaluation:
    evaluation: SuiteEvaluation
    until: float  # of time.monotonic()


class Library:
    """The cache of suites and evaluations. It is thread-safe.

    `patience_s` limits the time for which a list waits for changed files and evaluations. None, the
    value for commands and background work, means until they end (at most 20 s per suite, and 20 s
    for each package that has to be pulled).
    """

    def __init__(self) -> None:
        self.shelf = Shelf()
        self._patience_s: float | None = None
        self._lock = threading.Lock()
        self._basis: Basis | None = None
        self._prepared: dict[str, PreparedSuite] = {}
        self._cached: OrderedDict[str, _CachedEvaluation] = OrderedDict()
        self._running: dict[str, Future[SuiteEvaluation]] = {}
        self._ahead: dict[str, Future[SuiteEvaluation]] = {}  # of imports; nobody else waits for it
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._hydrations = Hydrations()

    @property
    def patience_s(self) -> float | None:
        return self._patience_s

    @patience_s.setter
    def patience_s(self, seconds: float | None) -> None:
        self._patience_s = seconds
        self.shelf.rests = seconds is not None

    def suites(self) -> Sequence[Suite]:
        """Return the suites of all sources by id; read those that have changed."""
        return self.shelf.suites()

    def resolver(self) -> Resolver:
        return self._current_basis().resolver

    def evaluated_suites(self) -> list[EvaluatedSuite]:
        """Return every suite with its evaluation.

        A suite whose evaluation takes too long is returned as before its files changed; a new one
        has no evaluation.
        """
        until = None if self.patience_s is None else time.monotonic() + self.patience_s
        basis = self._current_basis()
        ready = {each.suite_id: self._ready(each, basis) for each in basis.suites}
        futures = {
            suite.suite_id: self._start_work(suite, basis)
            for suite in basis.suites
            if ready[suite.suite_id] is None
        }
        wait(
            [each for work in futures.values() for each in work.futures],
            timeout=None if until is None else max(0.0, until - time.monotonic()),
        )
        with self._lock:
            for gone in self._prepared.keys() - ready.keys():
                self._prepared.pop(gone)
        return [
            ready[suite.suite_id] or self._evaluate(suite, basis, futures[suite.suite_id])
            for suite in basis.suites
        ]

    def find_prepared(self, suite_id: str) -> EvaluatedSuite | None:
        """Find a suite that was evaluated before, if a look at its own files shows no change."""
        found = self._prepared.get(suite_id)
        if found is None or found.until < time.monotonic() or found.basis.rules != _rules():
            return None
        holds = self.shelf.holds(found.basis.suites, found.watched)
        return found.evaluated if holds and found.has_same_modules() else None

    def evaluate(self, suite: Suite, *, within_s: float | None = None) -> EvaluatedSuite:
        """Evaluate a suite under its default profile, and wait, at most so long."""
        basis = self._current_basis()
        if (ready := self._ready(suite, basis)) and ready.is_complete:
            return ready
        work = self._start_work(suite, basis)
        wait(work.futures, timeout=within_s)
        return self._evaluate(suite, basis, work)

    def hydrate(self, suite: Suite | ImportedSuite) -> HydratedSurfaces:
        """Hydrate the API surfaces of a suite, and wait."""
        return self._hydrations.start(suite).result()

    def evaluation(self, suite: Suite, env: Mapping[str, str]) -> SuiteEvaluation:
        """Evaluate a suite under a profile env, and wait."""
        return self._start(suite, env, self._current_basis())[0].result()

    def evaluation_with(
        self, suite: Suite, env: Mapping[str, str], earlier: Sequence[Suite]
    ) -> SuiteEvaluation:
        """Evaluate a suite whose imports may have earlier contents as well, on this thread."""
        basis = self._current_basis()
        resolver = Resolver(basis.suites, earlier=earlier)
        return Composition(
            resolver, lambda one, its_env: self._own_evaluation(one, its_env, basis)
        ).whole(suite, env)

    def trial(self, suite: Suite) -> SuiteEvaluation:
        """Evaluate a suite that no source has yet, under its default profile, and wait."""
        return self._start_default(suite, self._current_basis())[0].result()

    def close(self) -> None:
        """Cancel evaluations that have not started; a later call starts new threads."""
        with self._lock:
            pools, self._pools = self._pools, {}
            for pool in pools.values():
                pool.shutdown(wait=False, cancel_futures=True)
            for waiting in (self._running, self._ahead):
                for key in [key for key, future in waiting.items() if future.cancelled()]:
                    waiting.pop(key)
        self._hydrations.close()

    def _current_basis(self) -> Basis:
        suites = self.shelf.suites()
        rules = _rules()
        basis = self._basis
        if basis is None or basis.suites is not suites or basis.rules != rules:
            resolver = Resolver(suites, ids=self.shelf.ids())
            basis = self._basis = Basis(suites=suites, rules=rules, resolver=resolver)
        return basis

    def _ready(self, suite: Suite, basis: Basis) -> EvaluatedSuite | None:
        """Return what was prepared if it certainly still holds."""
        found = self._prepared.get(suite.suite_id)
        if found is None or found.evaluated.suite is not suite or found.until < time.monotonic():
            return None
        alone = not suite.dependencies.entries and found.basis.rules == basis.rules
        same = alone or found.basis is basis
        return found.evaluated if same and found.has_same_modules() else None

    def _start_work(self, suite: Suite, basis: Basis) -> Work:
        future, closure = self._start_default(suite, basis)
        modules = modules_digest([suite, *closure.suites])
        return Work(future, self._hydrations.start(suite), closure, modules)

    def _evaluate(self, suite: Suite, basis: Basis, work: Work) -> EvaluatedSuite:
        known = self._prepared.get(suite.suite_id)
        before = known.evaluated if known else None
        evaluation = work.evaluation.result() if work.evaluation.done() else None
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
        age = _age(evaluation, work.closure) if evaluation and hydrated else 0.0
        local = {each.suite_id for each in work.closure.suites if each.source != REGISTRY}
        prepared = PreparedSuite(
            evaluated=evaluated,
            work=work,
            basis=basis,
            until=time.monotonic() + age,
            watched=frozenset({suite.suite_id, *local}),
        )
        if basis.resolver.lists(suite):  # no other version of it, which was found on demand
            with self._lock:
                self._prepared[suite.suite_id] = prepared
        return evaluated

    def _start_default(self, suite: Suite, basis: Basis) -> tuple[Future[SuiteEvaluation], Closure]:
        try:
            env = select_profile(suite.profiles, suite_id=suite.suite_id).env
        except ProfileInvalid as invalid:
            at = invalid.errors[0]
            problem = TopologyProblem(
                "profile_invalid", invalid.detail, file=at.file, line=at.line, column=at.column
            )
            return _done_future(SuiteEvaluation(problem=problem)), Closure()
        return self._start(suite, env, basis)

    def _start(
        self, suite: Suite, env: Mapping[str, str], basis: Basis
    ) -> tuple[Future[SuiteEvaluation], Closure]:
        """Return the running or finished evaluation of this content, and its imports, in this env.

        Contacts no registry; the thread that runs the evaluation does.
        """
        if suite.package_problem:
            return _done_future(SuiteEvaluation(problem=suite.package_problem)), Closure()
        closure = basis.resolver.closure(suite)
        key = _key(suite, env, closure, basis)
        with self._lock:
            if known := self._find_cached(key):
                return _done_future(known), closure
            if key not in self._running:
                pool = self._pool("whole", CHILDREN) if closure.is_whole else self._pulling()
                self._running[key] = pool.submit(self._run, key, suite, env, basis)
            return self._running[key], closure

    def _pool(self, name: str, threads: int) -> ThreadPoolExecutor:
        if name not in self._pools:
            self._pools[name] = ThreadPoolExecutor(threads, f"suite-evaluation-{name}")
        return self._pools[name]

    def _pulling(self) -> ThreadPoolExecutor:
        """Return threads of their own: a slow registry does not delay suites without packages."""
        return self._pool("pulling", PULLS)

    def _find_cached(self, key: str) -> SuiteEvaluation | None:
        cached = self._cached.get(key)
        if cached is None or cached.until <= time.monotonic():
            return None
        self._cached.move_to_end(key)
        return cached.evaluation

    def _run(self, key: str, suite: Suite, env: Mapping[str, str], basis: Basis) -> SuiteEvaluation:
        try:
            return then_disconnect(lambda: self._compose(key, suite, env, basis))
        finally:
            with self._lock:
                self._running.pop(key, None)

    def _compose(
        self, key: str, suite: Suite, env: Mapping[str, str], basis: Basis
    ) -> SuiteEvaluation:
        if not suite.dependencies.entries:
            own = self._run_own(key, suite, env)
            whole = Composition(basis.resolver, lambda _suite, _env: own).whole(suite, env)
            if whole is not own:  # it imports what it does not declare
                self._keep(key, whole, Closure())
            return whole
        closure = basis.resolver.closure(suite)
        ahead = [
            (child, env_of)
            for _, pin, child in closure.reached
            if (env_of := _import_env(child, pin)) is not None
        ]
        for other, other_env in ahead:
            self._begin_own(other, other_env, basis)
        evaluation = Composition(
            basis.resolver, lambda one, its_env: self._own_evaluation(one, its_env, basis)
        ).whole(suite, env)
        after = basis.resolver.closure(suite)  # packages that were pulled are in it now
        if after.is_whole:
            self._keep(_key(suite, env, after, basis), evaluation, after)
        else:
            self._keep(key, evaluation, after)
        return evaluation

    def _begin_own(self, suite: Suite, env: Mapping[str, str], basis: Basis) -> None:
        """Start the evaluation of an imported suite before the one that imports it has ended."""
        if suite.package_problem:
            return
        key = _key(suite, env, None, basis)
        with self._lock:
            if self._find_cached(key) or key in self._running or key in self._ahead:
                return
            # These wait for child processes only, so that no thread waits for another one.
            pool = self._pool("own", CHILDREN)
            self._ahead[key] = pool.submit(self._run_own, key, suite, env)

    def _own_evaluation(
        self, suite: Suite, env: Mapping[str, str], basis: Basis
    ) -> SuiteEvaluation:
        """Return the evaluation of a suite without its imports, from the cache or a child process.

        Runs on the thread that needs it, unless it was begun before.
        """
        if suite.package_problem:
            return SuiteEvaluation(problem=suite.package_problem)
        key = _key(suite, env, None, basis)
        with self._lock:
            if known := self._find_cached(key):
                return known
            ahead, other = self._ahead.get(key), self._running.get(key)
        if ahead is not None and not ahead.cancel():
            return ahead.result()
        if other is not None and other.running() and not suite.dependencies.entries:
            return other.result()  # it waits for a child process only
        return self._run_own(key, suite, env)

    def _run_own(self, key: str, suite: Suite, env: Mapping[str, str]) -> SuiteEvaluation:
        try:
            rules = conf.evaluation_rules(suite.package.files)
            modules = loadable_modules(suite)
            answer = run_evaluator(
                suite.package.text(TOPOLOGY_FILE), env=env, rules=rules, modules=modules
            )
            evaluation = evaluation_of(answer)
            if evaluation.problem and (reason := unreachable_module(modules)):
                evaluation = replace(evaluation, unreachable=reason)
            self._keep(key, evaluation, Closure())
            return evaluation
        finally:
            with self._lock:
                self._ahead.pop(key, None)

    def _keep(self, key: str, evaluation: SuiteEvaluation, closure: Closure) -> None:
        until = time.monotonic() + _age(evaluation, closure)
        with self._lock:
            self._cached[key] = _CachedEvaluation(evaluation=evaluation, until=until)
            self._cached.move_to_end(key)
            while len(self._cached) > CACHED_EVALUATIONS:
                self._cached.popitem(last=False)


def _rules() -> str:
    return json.dumps([conf.evaluation_rules(()), list(conf.env_prefixes())])


def _age(evaluation: SuiteEvaluation, closure: Closure) -> float:
    """Return for how long an evaluation holds, in seconds.

    A killed one may succeed on a quieter machine, a registry may answer again, and a tag may move.
    """
    if evaluation.unreachable or not closure.is_whole:
        return UNREACHABLE_CACHED_S
    if evaluation.killed:
        return KILLED_CACHED_S
    return _FOREVER if closure.is_pinned else TAG_KEPT_S


def _import_env(suite: Suite, pin: Pin) -> Mapping[str, str] | None:
    """Return the env in which an import will be evaluated, None if its profile is at fault."""
    try:
        return profile_of(suite, pin).env
    except TopologyProblem:
        return None


def _key(suite: Suite, env: Mapping[str, str], closure: Closure | None, basis: Basis) -> str:
    """Return the key of an evaluation with all that it may import, None for its own nodes alone."""
    imports = (closure and closure.digest) or _OWN
    modules = modules_digest([suite, *(closure.suites if closure else ())])
    own_id = "" if imports == _OWN else suite.identity
    inputs = [own_id, suite.digest, dict(env), basis.rules, imports, modules]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _done_future(evaluation: SuiteEvaluation) -> Future[SuiteEvaluation]:
    future: Future[SuiteEvaluation] = Future()
    future.set_result(evaluation)
    return future


library: Final = Library()
