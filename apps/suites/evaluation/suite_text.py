"""The evaluation of the text of one suite, without the suites that it imports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from apps.suites import conf
from apps.suites.dependencies.modules import loadable_modules, unreachable_module
from apps.suites.domain.calls import EvaluationAnswer
from apps.suites.domain.definition import Suite, SuiteEvaluation
from apps.suites.domain.export_clashes import refuse_export_clashes
from apps.suites.domain.package import TOPOLOGY_FILE
from apps.suites.domain.problems import Position, TopologyProblem
from apps.suites.domain.topology import ResolvedNode, build_topology, identities
from apps.suites.evaluator.process import run_evaluator


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
