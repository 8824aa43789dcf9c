"""The suites of one moment, and the evaluation of any of them with all that it imports."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from apps.profiles.api import ProfileInvalid, select_profile
from apps.suites import conf
from apps.suites.dependencies.modules import loadable_modules, modules_digest, unreachable_module
from apps.suites.dependencies.resolution import Closure, Resolver
from apps.suites.domain.calls import EvaluationAnswer
from apps.suites.domain.definition import Suite, SuiteEvaluation
from apps.suites.domain.export_clashes import refuse_export_clashes
from apps.suites.domain.package import TOPOLOGY_FILE
from apps.suites.domain.problems import Position, TopologyProblem
from apps.suites.domain.topology import ResolvedNode, build_topology, identities
from apps.suites.evaluation.cache import EvaluationCache, JobResult, Pool, ended_future
from apps.suites.evaluation.composition import Composition, profile_of
from apps.suites.evaluator.process import run_evaluator
from apps.suites.sources.registry_packages import TAG_KEPT_S

KILLED_CACHED_S: Final = 60.0
UNREACHABLE_CACHED_S: Final = 15.0
_OWN: Final = "own"  # the key of an evaluation without imports
_FOREVER: Final = float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class StartedEvaluation:
    """An evaluation, done or under way, and what it may import as far as that is known."""

    future: Future[SuiteEvaluation]
    closure: Closure = field(default_factory=Closure)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LibrarySnapshot:
    """What evaluations depend on: the suites of one moment, and the rules of the settings."""

    suites: tuple[Suite, ...]
    rules: str
    resolver: Resolver
    cache: EvaluationCache

    def start_default(self, suite: Suite) -> StartedEvaluation:
        """Start the evaluation of a suite under its default profile; as `start`."""
        try:
            env = select_profile(suite.profiles, suite_id=suite.suite_id).env
        except ProfileInvalid as invalid:
            at = invalid.errors[0]
            problem = TopologyProblem(
                "profile_invalid", invalid.detail, file=at.file, line=at.line, column=at.column
            )
            return StartedEvaluation(ended_future(SuiteEvaluation(problem=problem)))
        return self.start(suite, env)

    def start(self, suite: Suite, env: Mapping[str, str]) -> StartedEvaluation:
        """Start the evaluation of a suite under a profile env, unless it is under way or done.

        Contacts no registry; the thread that runs the evaluation does.
        """
        if suite.package_problem:
            return StartedEvaluation(ended_future(SuiteEvaluation(problem=suite.package_problem)))
        closure = self.resolver.closure(suite)
        evaluate = self._evaluate_with_imports if suite.dependencies.entries else self._evaluate_own
        pool: Pool = "whole" if closure.is_whole else "pulling"
        key = self._key(suite, env, closure)
        return StartedEvaluation(
            self.cache.start(key, partial(evaluate, suite, env), pool), closure
        )

    def evaluate_with(
        self, suite: Suite, env: Mapping[str, str], earlier: Sequence[Suite]
    ) -> SuiteEvaluation:
        """Evaluate a suite whose imports may have earlier contents as well, on this thread."""
        return Composition(Resolver(self.suites, earlier=earlier), self._own).whole(suite, env)

    def _evaluate_with_imports(self, suite: Suite, env: Mapping[str, str]) -> JobResult:
        for _, pin, imported in self.resolver.closure(suite).reached:
            try:
                its_env = profile_of(imported, pin).env
            except TopologyProblem:
                continue  # the composition says so
            if not imported.package_problem:
                job = partial(self._evaluate_own, imported, its_env)
                self.cache.start(self._key(imported, its_env), job, "ahead")
        evaluation = Composition(self.resolver, self._own).whole(suite, env)
        closure = self.resolver.closure(suite)  # packages that were pulled are in it now
        key = self._key(suite, env, closure) if closure.is_whole else ""
        return JobResult(evaluation=evaluation, lifetime_s=lifetime_s(evaluation, closure), key=key)

    def _own(self, suite: Suite, env: Mapping[str, str]) -> SuiteEvaluation:
        """Return the evaluation of a suite without its imports, and wait."""
        if suite.package_problem:
            return SuiteEvaluation(problem=suite.package_problem)
        return self.cache.get(self._key(suite, env), partial(self._evaluate_own, suite, env))

    def _evaluate_own(self, suite: Suite, env: Mapping[str, str]) -> JobResult:
        """Evaluate a suite without its imports; it waits for no other evaluation."""
        evaluation = own = evaluate_text(suite, env)
        if not suite.dependencies.entries:  # what it imports is not declared, which is a problem
            evaluation = Composition(self.resolver, lambda _suite, _env: own).whole(suite, env)
        return JobResult(evaluation=evaluation, lifetime_s=lifetime_s(evaluation, Closure()))

    def _key(self, suite: Suite, env: Mapping[str, str], closure: Closure | None = None) -> str:
        """Return the key of an evaluation with what it may import, None for its own nodes alone."""
        imports = (closure and closure.digest) or _OWN
        modules = modules_digest([suite, *(closure.suites if closure else ())])
        own_id = "" if imports == _OWN else suite.identity
        inputs = [own_id, suite.digest, dict(env), self.rules, imports, modules]
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def current_rules() -> str:
    """Return what changes with the settings that evaluations depend on."""
    return json.dumps([conf.evaluation_rules(()), list(conf.env_prefixes())])


def lifetime_s(evaluation: SuiteEvaluation, closure: Closure) -> float:
    """Return for how long an evaluation holds, in seconds.

    A killed one may succeed on a quieter machine, a registry may answer again, and a tag may move.
    """
    if evaluation.unreachable or not closure.is_whole:
        return UNREACHABLE_CACHED_S
    if evaluation.killed:
        return KILLED_CACHED_S
    return _FOREVER if closure.is_pinned else TAG_KEPT_S


def evaluate_text(suite: Suite, env: Mapping[str, str]) -> SuiteEvaluation:
    """Evaluate the suite.star of a suite in a child process, and wait.

    A module of a registry that is not stored is pulled first, which takes up to 20 s.
    """
    rules = conf.evaluation_rules(suite.package.files)
    modules = loadable_modules(suite)
    text = suite.package.text(TOPOLOGY_FILE)
    evaluation = _read_answer(run_evaluator(text, env=env, rules=rules, modules=modules))
    if evaluation.problem and (reason := unreachable_module(modules)):
        return replace(evaluation, unreachable=reason)
    return evaluation


def _read_answer(answer: EvaluationAnswer) -> SuiteEvaluation:
    """Return the topology of the evaluator's answer, or the problem."""
    topology: tuple[ResolvedNode, ...] = ()
    problem = TopologyProblem(**answer["problem"]) if answer["problem"] else None
    if problem is not None:
        problem.add_problems(TopologyProblem(**each) for each in answer.get("more", ()))
    else:
        try:
            topology = build_topology(answer["nodes"], answer["bound"])
            refuse_export_clashes(topology, _positions(answer))
        except TopologyProblem as found:
            topology, problem = (), found
    return SuiteEvaluation(
        topology=topology,
        problem=problem,
        loads=tuple(answer["loads"]),
        printed=tuple(answer["printed"]),
        calls=_positions(answer) if topology else {},
        killed=bool(answer.get("killed")),
    )


def _positions(answer: EvaluationAnswer) -> dict[str, Position]:
    """Return the positions of the calls by the ids of their nodes."""
    ids = identities(answer["nodes"], answer["bound"])
    pairs = zip(ids, answer["nodes"], strict=True)
    return {node_id: call.get("position", {}) for node_id, call in pairs}
