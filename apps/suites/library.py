"""The suites of this process, read when their files change and evaluated once per content.

Evaluations run on two threads, each of which waits for a child process, so that no request waits
for the evaluation of another suite. Results are cached by content and profile env.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apps.profiles.api import ProfileInvalid, select_profile
from apps.suites import conf, workspace
from apps.suites.composition import Composition, closure_digest
from apps.suites.domain.calls import EvaluationAnswer
from apps.suites.domain.definition import (
    DefinitionDocument,
    Suite,
    SuiteEvaluation,
    definition_of,
    suite_of,
)
from apps.suites.domain.package import TOPOLOGY_FILE
from apps.suites.domain.problems import Position, TopologyProblem
from apps.suites.domain.topology import ResolvedNode, build_topology, identities
from apps.suites.evaluator.process import CHILDREN, run_evaluator
from apps.suites.profiles import profile_join

CACHED_EVALUATIONS: Final = 256
KILLED_CACHED_S: Final = 60.0
_OWN: Final = "own"  # the key of an evaluation without imports


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedSuite:
    """A suite and its evaluation under its default profile; None while that runs."""

    suite: Suite
    evaluation: SuiteEvaluation | None
    definition: DefinitionDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedEvaluation:
    evaluation: SuiteEvaluation
    until: float  # of time.monotonic()


class Library:
    """The cache of suites and evaluations. It is thread-safe.

    `patience_s` limits the time for which a list waits for changed files and evaluations. None, the
    value for commands and background work, means until they end (at most 5 s per suite).
    """

    def __init__(self) -> None:
        self.patience_s: float | None = None
        self._lock = threading.Lock()
        self._read: dict[str, tuple[workspace.Signature, Suite]] = {}
        self._evaluated_suites: dict[str, EvaluatedSuite] = {}
        self._cached: OrderedDict[str, _CachedEvaluation] = OrderedDict()
        self._running: dict[str, Future[SuiteEvaluation]] = {}
        self._threads: ThreadPoolExecutor | None = None

    def suites(self) -> list[Suite]:
        """Return the suites of the workspace by id; read those whose files have changed.

        Their profiles are those in force: stored ones over those of the files.
        """
        folders = workspace.suite_folders(conf.suites_dir())
        found = [self._suite(suite_id, folder) for suite_id, folder in folders.items()]
        with self._lock:
            for gone in self._read.keys() - folders.keys():
                self._read.pop(gone)
                self._evaluated_suites.pop(gone, None)
        return profile_join.joined(found)

    def evaluated_suites(self) -> list[EvaluatedSuite]:
        """Return every suite with its evaluation.

        A suite whose evaluation takes too long is returned as before its files changed; a new one
        has no evaluation.
        """
        until = None if self.patience_s is None else time.monotonic() + self.patience_s
        suites = self.suites()
        futures = {suite.suite_id: self._start_default(suite, suites) for suite in suites}
        wait(futures.values(), timeout=None if until is None else until - time.monotonic())
        return [self._evaluated(suite, futures[suite.suite_id]) for suite in suites]

    def evaluate(self, suite: Suite) -> EvaluatedSuite:
        """Evaluate a suite under its default profile, and wait."""
        future = self._start_default(suite)
        wait([future])
        return self._evaluated(suite, future)

    def evaluation(self, suite: Suite, env: Mapping[str, str]) -> SuiteEvaluation:
        """Evaluate a suite under a profile env, and wait."""
        return self._start(suite, env).result()

    def close(self) -> None:
        """Cancel evaluations that have not started; a later call starts new threads."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads:
            threads.shutdown(wait=False, cancel_futures=True)

    def _suite(self, suite_id: str, folder: Path) -> Suite:
        signature = workspace.signature(folder)
        known = self._read.get(suite_id)
        if known and known[0] == signature:
            return known[1]
        suite = suite_of(workspace.read_package(suite_id, folder))
        with self._lock:
            self._read[suite_id] = (signature, suite)
        return suite

    def _evaluated(self, suite: Suite, future: Future[SuiteEvaluation]) -> EvaluatedSuite:
        before = self._evaluated_suites.get(suite.suite_id)
        evaluation = future.result() if future.done() else None
        waits = evaluation is None and before is not None and before.evaluation is not None
        same = before and before.suite is suite and before.evaluation is evaluation
        if before and (waits or same):
            return before
        definition = definition_of(suite, evaluation)
        evaluated = EvaluatedSuite(suite=suite, evaluation=evaluation, definition=definition)
        with self._lock:
            self._evaluated_suites[suite.suite_id] = evaluated
        return evaluated

    def _start_default(
        self, suite: Suite, suites: Sequence[Suite] | None = None
    ) -> Future[SuiteEvaluation]:
        try:
            env = select_profile(suite.profiles, suite_id=suite.suite_id).env
        except ProfileInvalid as invalid:
            at = invalid.errors[0]
            problem = TopologyProblem(
                "profile_invalid", invalid.detail, file=at.file, line=at.line, column=at.column
            )
            return _done(SuiteEvaluation(problem=problem))
        return self._start(suite, env, suites)

    def _start(
        self, suite: Suite, env: Mapping[str, str], suites: Sequence[Suite] | None = None
    ) -> Future[SuiteEvaluation]:
        """Return the running or finished evaluation of this content, and its imports, in this env.

        `suites` are those that can be imported, by default all of the workspace.
        """
        if suite.package_problem:
            return _done(SuiteEvaluation(problem=suite.package_problem))
        if suite.dependencies.entries:
            suites = self.suites() if suites is None else suites
        importable = suites or ()
        key = _key(suite, env, closure_digest(suite, importable))
        with self._lock:
            if known := self._known(key):
                return _done(known)
            if key not in self._running:
                if self._threads is None:
                    self._threads = ThreadPoolExecutor(CHILDREN, "suite-evaluation")
                self._running[key] = self._threads.submit(self._run, key, suite, env, importable)
            return self._running[key]

    def _known(self, key: str) -> SuiteEvaluation | None:
        cached = self._cached.get(key)
        if cached is None or cached.until <= time.monotonic():
            return None
        self._cached.move_to_end(key)
        return cached.evaluation

    def _run(
        self, key: str, suite: Suite, env: Mapping[str, str], suites: Sequence[Suite]
    ) -> SuiteEvaluation:
        try:
            evaluation = Composition(suites, self._own_evaluation).whole(suite, env)
            self._keep(key, evaluation)
            return evaluation
        finally:
            with self._lock:
                self._running.pop(key, None)

    def _own_evaluation(self, suite: Suite, env: Mapping[str, str]) -> SuiteEvaluation:
        """Return the evaluation of a suite without its imports, from the cache or a child process.

        Runs on the thread that needs it: if imports waited for other threads of the pool, all of
        these could wait for each other.
        """
        if suite.package_problem:
            return SuiteEvaluation(problem=suite.package_problem)
        key = _key(suite, env, _OWN)
        with self._lock:
            if known := self._known(key):
                return known
        rules = conf.evaluation_rules(suite.package.files)
        answer = run_evaluator(suite.package.text(TOPOLOGY_FILE), env=env, rules=rules)
        evaluation = evaluation_of(answer)
        if suite.dependencies.entries:
            self._keep(key, evaluation)
        return evaluation

    def _keep(self, key: str, evaluation: SuiteEvaluation) -> None:
        # A killed evaluation may succeed on a quieter machine, so it is cached for a minute.
        age = KILLED_CACHED_S if evaluation.killed else float("inf")
        cached = _CachedEvaluation(evaluation=evaluation, until=time.monotonic() + age)
        with self._lock:
            self._cached[key] = cached
            while len(self._cached) > CACHED_EVALUATIONS:
                self._cached.popitem(last=False)


def _key(suite: Suite, env: Mapping[str, str], imports: str) -> str:
    """Return the key of an evaluation; `imports` is the digest of all that it may import."""
    rules = conf.evaluation_rules(suite.package.files)
    inputs = [suite.suite_id if imports else "", suite.digest, dict(env), rules, imports]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def evaluation_of(answer: EvaluationAnswer) -> SuiteEvaluation:
    """Return the topology of the evaluator's answer, or the problem."""
    topology: tuple[ResolvedNode, ...] = ()
    problem = TopologyProblem(**answer["problem"]) if answer["problem"] else None
    if problem is None:
        try:
            topology = build_topology(answer["nodes"], answer["bound"])
        except TopologyProblem as found:
            problem = found
    return SuiteEvaluation(
        topology=topology,
        problem=problem,
        loads=tuple(answer["loads"]),
        printed=tuple(answer["printed"]),
        calls=_calls(answer) if topology else {},
        killed=bool(answer.get("killed")),
    )


def _calls(answer: EvaluationAnswer) -> dict[str, Position]:
    """Return the positions of the calls by the ids of their nodes."""
    ids = identities(answer["nodes"], answer["bound"])
    pairs = zip(ids, answer["nodes"], strict=True)
    return {node_id: call.get("position", {}) for node_id, call in pairs}


def _done(evaluation: SuiteEvaluation) -> Future[SuiteEvaluation]:
    future: Future[SuiteEvaluation] = Future()
    future.set_result(evaluation)
    return future


library: Final = Library()
