"""The suites this process knows: read when their files change, evaluated once per content.

Evaluations run on two threads of their own, each waiting for a child process, so that no request
is held up by another suite's evaluation. Results are kept by content and profile env.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Final

from apps.suites import conf
from apps.suites.domain.definition import Evaluation, Suite, definition_of, suite_of
from apps.suites.domain.package import TOPOLOGY_FILE
from apps.suites.domain.problems import TopologyProblem
from apps.suites.domain.profiles import ProfileInvalid, default_profile, merge_chain
from apps.suites.domain.topology import build_topology
from apps.suites.evaluator.process import CHILDREN, run_evaluator
from apps.suites.sources import workspace

KEPT_EVALUATIONS: Final = 256
KILLED_KEPT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A suite beside its evaluation under its default profile; None while that runs."""

    suite: Suite
    evaluation: Evaluation | None
    definition: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    evaluation: Evaluation
    until: float  # of time.monotonic()


class Library:
    """Thread-safe.

    `patience_s` bounds how long a list waits for evaluations, the reading of changed files
    included: None for as long as they take (5 s a suite at most). A server has little patience,
    commands and background work have it all.
    """

    def __init__(self) -> None:
        self.patience_s: float | None = None
        self._lock = threading.Lock()
        self._read: dict[str, tuple[workspace.Signature, Suite]] = {}
        self._shown: dict[str, Shown] = {}
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._running: dict[str, Future[Evaluation]] = {}
        self._threads: ThreadPoolExecutor | None = None

    def suites(self) -> list[Suite]:
        """Every suite of the workspace by id, read anew where files have changed."""
        folders = workspace.suite_folders(conf.suites_dir())
        found = [self._suite(suite_id, folder) for suite_id, folder in folders.items()]
        with self._lock:
            for gone in self._read.keys() - folders.keys():
                self._read.pop(gone)
                self._shown.pop(gone, None)
        return found

    def shown(self) -> list[Shown]:
        """Every suite with its evaluation.

        Where that outlasts the patience, as it was before its files changed; a suite that is new
        then comes without evaluation.
        """
        until = None if self.patience_s is None else time.monotonic() + self.patience_s
        suites = self.suites()
        futures = {suite.suite_id: self._start_default(suite) for suite in suites}
        wait(futures.values(), timeout=None if until is None else until - time.monotonic())
        return [self._show(suite, futures[suite.suite_id]) for suite in suites]

    def show(self, suite: Suite) -> Shown:
        """One suite under its default profile; waits for its evaluation."""
        future = self._start_default(suite)
        wait([future])
        return self._show(suite, future)

    def evaluation(self, suite: Suite, env: Mapping[str, str]) -> Evaluation:
        """The topology under a profile env, or the problem; waits for it."""
        return self._start(suite, env).result()

    def close(self) -> None:
        """Give up evaluations that have not begun; a later call would begin anew."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads:
            threads.shutdown(wait=False, cancel_futures=True)

    def _suite(self, suite_id: str, folder: Any) -> Suite:
        signature = workspace.signature(folder)
        known = self._read.get(suite_id)
        if known and known[0] == signature:
            return known[1]
        suite = suite_of(workspace.read_package(suite_id, folder))
        with self._lock:
            self._read[suite_id] = (signature, suite)
        return suite

    def _show(self, suite: Suite, future: Future[Evaluation]) -> Shown:
        before = self._shown.get(suite.suite_id)
        evaluation = future.result() if future.done() else None
        waits = evaluation is None and before is not None and before.evaluation is not None
        if before and (waits or _is_same(before, suite, evaluation)):
            return before
        definition = definition_of(suite, evaluation)
        shown = Shown(suite=suite, evaluation=evaluation, definition=definition)
        with self._lock:
            self._shown[suite.suite_id] = shown
        return shown

    def _start_default(self, suite: Suite) -> Future[Evaluation]:
        profile = default_profile(suite.profiles)
        try:
            env = merge_chain(suite.profiles, profile).env if profile else {}
        except ProfileInvalid as invalid:
            return _done(Evaluation(problem=_profile_problem(invalid)))
        return self._start(suite, env)

    def _start(self, suite: Suite, env: Mapping[str, str]) -> Future[Evaluation]:
        """The running or finished evaluation of this content with this env; one at a time."""
        if suite.package_problem:
            return _done(Evaluation(problem=suite.package_problem))
        rules = conf.evaluation_rules(suite.package.files)
        key = _key(suite.digest, env, rules)
        with self._lock:
            kept = self._kept.get(key)
            if kept and kept.until > time.monotonic():
                self._kept.move_to_end(key)
                return _done(kept.evaluation)
            if key not in self._running:
                self._running[key] = self._pool().submit(self._evaluate, key, suite, env, rules)
            return self._running[key]

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(CHILDREN, thread_name_prefix="suite-evaluation")
        return self._threads

    def _evaluate(
        self, key: str, suite: Suite, env: Mapping[str, str], rules: Mapping[str, Any]
    ) -> Evaluation:
        try:
            answer = run_evaluator(suite.package.text(TOPOLOGY_FILE), env=env, rules=rules)
            evaluation = evaluation_of(answer)
            # A killed one may do better on a quieter machine, so it is not kept for good.
            age = KILLED_KEPT_S if answer.get("killed") else float("inf")
            self._keep(key, _Kept(evaluation=evaluation, until=time.monotonic() + age))
            return evaluation
        finally:
            with self._lock:
                self._running.pop(key, None)

    def _keep(self, key: str, kept: _Kept) -> None:
        with self._lock:
            self._kept[key] = kept
            while len(self._kept) > KEPT_EVALUATIONS:
                self._kept.popitem(last=False)


def evaluation_of(answer: Mapping[str, Any]) -> Evaluation:
    """The evaluator's answer as a topology, or as the problem that stands in its way."""
    topology: tuple[Mapping[str, Any], ...] = ()
    problem = TopologyProblem(**answer["problem"]) if answer["problem"] else None
    if problem is None:
        try:
            topology = build_topology(answer["nodes"], answer["bound"])
        except TopologyProblem as found:
            problem = found
    return Evaluation(
        topology=topology,
        problem=problem,
        loads=tuple(answer["loads"]),
        printed=tuple(answer["printed"]),
    )


def _is_same(before: Shown, suite: Suite, evaluation: Evaluation | None) -> bool:
    return before.suite is suite and before.evaluation is evaluation


def _profile_problem(invalid: ProfileInvalid) -> TopologyProblem:
    at = invalid.errors[0]
    return TopologyProblem(
        "profile_invalid", invalid.detail, file=at.file, line=at.line, column=at.column
    )


def _done(evaluation: Evaluation) -> Future[Evaluation]:
    future: Future[Evaluation] = Future()
    future.set_result(evaluation)
    return future


def _key(digest: str, env: Mapping[str, str], rules: Mapping[str, Any]) -> str:
    inputs = json.dumps([digest, dict(env), rules], sort_keys=True)
    return hashlib.sha256(inputs.encode()).hexdigest()


library: Final = Library()
