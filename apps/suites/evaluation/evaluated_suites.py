"""A suite with all that is made of it, and what is under way."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from apps.suites.dependencies.modules import modules_digest
from apps.suites.dependencies.resolution import Closure, Resolver
from apps.suites.domain.calls import EvaluationAnswer
from apps.suites.domain.definition import DefinitionDocument, Suite, SuiteEvaluation
from apps.suites.domain.export_clashes import refuse_export_clashes
from apps.suites.domain.problems import Position, TopologyProblem
from apps.suites.domain.topology import ResolvedNode, build_topology, identities
from surfaces import HydratedSurfaces


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


@dataclass(frozen=True, slots=True)
class Work:
    """What is under way for a suite."""

    evaluation: Future[SuiteEvaluation]
    hydration: Future[HydratedSurfaces]
    closure: Closure
    modules: str  # the digest of the modules that it and its imports load

    @property
    def futures(self) -> list[Future[Any]]:
        return [self.evaluation, self.hydration]


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What evaluations depend on beside the suite: all suites, and the rules of the settings."""

    suites: tuple[Suite, ...]
    rules: str
    resolver: Resolver


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSuite:
    """An evaluated suite that holds while its basis and the modules that it loads are the same.

    `until` is of time.monotonic().
    """

    evaluated: EvaluatedSuite
    work: Work
    basis: Basis
    until: float
    watched: frozenset[str]  # the ids of the suites that it consists of

    def has_same_modules(self) -> bool:
        loaded_by = [self.evaluated.suite, *self.work.closure.suites]
        return self.work.modules == modules_digest(loaded_by)


def evaluation_of(answer: EvaluationAnswer) -> SuiteEvaluation:
    """Return the topology of the evaluator's answer, or the problem."""
    topology: tuple[ResolvedNode, ...] = ()
    problem = TopologyProblem(**answer["problem"]) if answer["problem"] else None
    if problem is not None:
        problem.add_problems(TopologyProblem(**each) for each in answer.get("more", ()))
    if problem is None:
        try:
            topology = build_topology(answer["nodes"], answer["bound"])
            refuse_export_clashes(topology, _calls(answer))
        except TopologyProblem as found:
            topology, problem = (), found
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
