"""The suite under its present lock beside the suite under a new one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from apps.profiles.api import ProfileInvalid, select_profile
from apps.suites.dependencies.lock_file import NewLock
from apps.suites.dependencies.locked_contents import earlier_contents
from apps.suites.domain.definition import Suite, SuiteEvaluation, suite_of
from apps.suites.domain.differences import LockDifference, LockedState, difference
from apps.suites.evaluation.library import Library

_CONTRACTS: Final = "api/"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockComparison:
    """A new lock and what it changes.

    `problem` is why the present lock does not resolve, for example because the content that it
    pins is kept nowhere: everything then counts as added.
    """

    lock: NewLock
    difference: LockDifference
    problem: str = ""


def compare(library: Library, suite: Suite, lock: NewLock) -> LockComparison:
    """Evaluate a suite under its default profile with both locks; wait for the evaluations."""
    files = {**suite.package.files, lock.path: lock.text.encode()}
    locked = suite_of(replace(suite.package, files=files))
    before, after = (_evaluate(library, each) for each in (suite, locked))
    if before.problem and before.problem.code == "digest_mismatch":
        earlier = earlier_contents(suite)
        before = library.evaluation_with(suite, _env(suite), earlier) if earlier else before
    return LockComparison(
        lock=lock,
        difference=difference(_state(before), _state(after)),
        problem=before.problem.message if before.problem else "",
    )


def _evaluate(library: Library, suite: Suite) -> SuiteEvaluation:
    return library.evaluation(suite, _env(suite))


def _env(suite: Suite) -> Mapping[str, str]:
    """Return the env of the default profile, none if that is invalid."""
    try:
        return select_profile(suite.profiles, suite_id=suite.suite_id).env
    except ProfileInvalid:
        return {}


def _state(evaluation: SuiteEvaluation) -> LockedState:
    contracts = {
        f"{imported.path}/{path}": f"sha256:{hashlib.sha256(content).hexdigest()}"
        for imported in evaluation.imports
        for path, content in imported.files.items()
        if path.startswith(_CONTRACTS)
    }
    return LockedState(topology=evaluation.topology, contracts=contracts)
