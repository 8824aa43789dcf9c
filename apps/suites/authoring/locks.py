"""The locks of suites: new ones, and the suite under its present lock beside it under a new one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from apps.profiles.api import ProfileInvalid, select_profile
from apps.suites import conf
from apps.suites.dependencies.lock_file import NewLock, new_lock, write_lock
from apps.suites.dependencies.locked_contents import earlier_contents, keep_contents
from apps.suites.dependencies.module_pins import needed_pins
from apps.suites.dependencies.resolution import PackageUnavailable
from apps.suites.domain.definition import Suite, SuiteEvaluation, suite_of
from apps.suites.domain.dependencies import FILES
from apps.suites.domain.differences import LockDifference, LockedState, difference
from apps.suites.domain.package import WORKSPACE
from apps.suites.domain.problems import TopologyProblem
from apps.suites.evaluation.library import library
from apps.suites.profiles import profile_join
from apps.suites.selectors import PackageUnreachable, TopologyInvalid, find_suite
from kernel.errors import InvalidInput

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


def suites_to_lock() -> list[str]:
    """Return the suites with a dependencies.yaml, and those that pin modules or should."""
    return sorted(
        suite.suite_id
        for suite in library.suites()
        if suite.package.first_of(*FILES)
        or (suite.source == WORKSPACE and (suite.dependencies.modules or needed_pins(suite)))
    )


def lock_suite(suite_id: str, *, write: bool) -> NewLock:
    """Return the new lock of a suite, and write its file if it differs.

    Registries are asked what tags mean now. Raise SuiteNotFound, TopologyInvalid if an import or a
    module does not resolve, PackageUnreachable if a registry does not answer, InvalidInput if the
    file cannot be written: only suites of the workspace have one.
    """
    suite = find_suite(suite_id)
    lock = _new_lock(suite)
    if write and not lock.is_current:
        if suite.source != WORKSPACE:
            raise InvalidInput(f"{suite_id} is not a suite of the workspace; fork it, then lock it")
        folder = conf.suites_dir() / suite.suite_id
        try:
            write_lock(folder, lock)
        except OSError as error:
            raise InvalidInput(f"{folder / lock.path}: {error.strerror}") from None
        _keep_imports(suite.suite_id)
    return lock


def lock_difference(suite_id: str) -> LockComparison:
    """Return what a new lock of a suite would change: nodes, images, env and contracts.

    May ask registries, which takes up to 20 s for each. Raise as `lock_suite` does.
    """
    suite = find_suite(suite_id)
    return _compare(suite, _new_lock(suite))


def _new_lock(suite: Suite) -> NewLock:
    try:
        return new_lock(suite, library.snapshot().resolver)
    except TopologyProblem as problem:
        if isinstance(problem, PackageUnavailable) and problem.unreachable:
            raise PackageUnreachable(problem.message) from None
        raise TopologyInvalid(problem) from None


def _keep_imports(suite_id: str) -> None:
    """Keep what was pinned, for the next lock's difference; without a store, do without."""
    if not profile_join.files_only:
        keep_contents(library.snapshot().resolver.closure(find_suite(suite_id)).suites)


def _compare(suite: Suite, lock: NewLock) -> LockComparison:
    """Evaluate a suite under its default profile with both locks; wait for the evaluations."""
    files = {**suite.package.files, lock.path: lock.text.encode()}
    locked = suite_of(replace(suite.package, files=files))
    before, after = (_evaluate(each) for each in (suite, locked))
    if before.problem and before.problem.code == "digest_mismatch":
        earlier = earlier_contents(suite)
        before = (
            library.snapshot().evaluate_with(suite, _env(suite), earlier) if earlier else before
        )
    return LockComparison(
        lock=lock,
        difference=difference(_state(before), _state(after)),
        problem=before.problem.message if before.problem else "",
    )


def _evaluate(suite: Suite) -> SuiteEvaluation:
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
