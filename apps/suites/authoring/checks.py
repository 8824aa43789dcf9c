"""The checks of suites: under each profile, and what is valid but probably wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from apps.profiles.api import ProfileInvalid, select_profile
from apps.suites import conf
from apps.suites.domain.definition import Suite, SuiteEvaluation
from apps.suites.domain.dependencies import split_reference
from apps.suites.domain.lint_comments import UNUSED, without_ignored
from apps.suites.domain.lint_rules import lint, problem_diagnostics
from apps.suites.domain.package import TOPOLOGY_FILE
from apps.suites.evaluation.library import library
from apps.suites.evaluator.process import lint_text
from apps.suites.selectors import find_suite
from readers.diagnostics import Diagnostic
from surfaces.mock_lint import lint_mocks


class ProfileVerdict(TypedDict):
    """Whether a suite resolves under one of its profiles, and to how many steps."""

    fileName: str
    stepCount: int
    error: NotRequired[Mapping[str, Any]]


def check_profiles(suite_id: str) -> list[ProfileVerdict]:
    """Resolve a suite under each of its profiles; raise SuiteNotFound.

    An `error` has `code` and `message`, and `file`, `line`, `column` where known.
    """
    suite = find_suite(suite_id)
    return [_verdict(suite, profile.file_name) for profile in suite.profiles]


def _verdict(suite: Suite, file_name: str) -> ProfileVerdict:
    try:
        env = select_profile(suite.profiles, file_name, suite_id=suite.suite_id).env
    except ProfileInvalid as invalid:
        said = invalid.errors[0].as_dict()
        error: dict[str, object] = {"code": invalid.code, "message": said["detail"]}
        error |= {key: said[key] for key in ("file", "line", "column") if key in said}
        return {"fileName": file_name, "stepCount": 0, "error": error}
    evaluation = _evaluate_fully(suite, env)
    if problem := evaluation.problem:
        return {"fileName": file_name, "stepCount": 0, "error": problem.as_dict()}
    return {"fileName": file_name, "stepCount": len(evaluation.topology)}


def _evaluate_fully(suite: Suite, env: Mapping[str, str]) -> SuiteEvaluation:
    return library.evaluation(suite, env).check_surfaces(library.hydrate(suite).surfaces)


def lint_suite(suite_id: str) -> list[Diagnostic]:
    """Return what is wrong, or most likely wrong, in a suite: errors first; raise SuiteNotFound."""
    suite = find_suite(suite_id)
    evaluations: dict[str, SuiteEvaluation] = {}
    broken: list[Diagnostic] = []
    for name in [profile.file_name for profile in suite.profiles] or [""]:
        try:
            env = select_profile(suite.profiles, name, suite_id=suite.suite_id).env
        except ProfileInvalid as invalid:
            at = invalid.errors[0]
            broken.append(
                Diagnostic(
                    code=invalid.code,
                    message=at.detail,
                    file=at.file or "",
                    line=at.line or 0,
                    column=at.column or 0,
                )
            )
            continue
        evaluations[name] = _evaluate_fully(suite, env)
    resolver = library.snapshot().resolver
    importable = {
        alias: found[0]
        for alias, declared in suite.dependencies.entries.items()
        if (found := resolver.candidates(split_reference(declared.ref).repository))
    }
    lints = lint_text(suite.package.text(TOPOLOGY_FILE), rules=conf.evaluation_rules(()))
    warnings = lint(suite, evaluations, importable, lints, _diagnostics_of_mocks(suite))
    return [*broken, *problem_diagnostics(evaluations), *warnings]


def lint_mocks_of(suite_id: str) -> list[Diagnostic]:
    """Return what is wrong, or most likely wrong, in api/ and mock/; raise SuiteNotFound."""
    suite = find_suite(suite_id)
    found = without_ignored(suite.package, _diagnostics_of_mocks(suite))
    return [each for each in found if each.code != UNUSED]  # others of the suite may be meant


def _diagnostics_of_mocks(suite: Suite) -> list[Diagnostic]:
    found = library.hydrate(suite)
    return lint_mocks(found.surfaces, found.warnings)
