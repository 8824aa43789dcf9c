"""Reads: definitions of suites, and suites resolved for a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from apps.oci.api import PackageNotFound
from apps.profiles.api import ProfileInvalid, select_profile
from apps.suites import conf
from apps.suites.authoring.lock_differences import LockComparison, compare
from apps.suites.dependencies.lock_file import NewLock, new_lock, write_lock
from apps.suites.dependencies.locked_contents import keep_contents
from apps.suites.dependencies.module_pins import needed_pins
from apps.suites.dependencies.resolution import PackageUnavailable
from apps.suites.domain.definition import (
    DefinitionDocument,
    Suite,
    SuiteEvaluation,
    definition_of,
    suite_of,
)
from apps.suites.domain.dependencies import FILES, split_reference
from apps.suites.domain.flat_topology import ImportedSuite
from apps.suites.domain.lint_comments import UNUSED, without_ignored
from apps.suites.domain.lint_rules import lint, problem_diagnostics
from apps.suites.domain.package import TOPOLOGY_FILE, WORKSPACE, Package
from apps.suites.domain.problems import TopologyProblem
from apps.suites.domain.served_surfaces import ServedSurfaces, served_surfaces
from apps.suites.evaluation.library import library
from apps.suites.evaluator.process import lint_text
from apps.suites.profiles import profile_join
from apps.suites.sources import folders
from kernel.errors import FieldError, InvalidInput, NotFound, PlatformError, known_names
from readers.diagnostics import Diagnostic
from surfaces.mock_lint import lint_mocks


class SuiteNotFound(NotFound):
    code = "suite_not_found"


class TopologyInvalid(PlatformError):
    """The suite has no valid topology.

    `errors[0]` is the problem, `members["topologyError"]` its wire form with the source line.
    """

    code = "topology_invalid"

    def __init__(self, problem: TopologyProblem, *, code: str | None = None) -> None:
        wire = problem.as_dict()
        at = FieldError(
            code=problem.code,
            detail=wire["message"],
            file=problem.file,
            line=problem.line,
            column=problem.column,
        )
        super().__init__(wire["message"], code=code, errors=[at], members={"topologyError": wire})
        self.problem = problem


class PackageInvalid(TopologyInvalid):
    """The suite's files break a package rule (reference: control-plane 6)."""

    code = "package_invalid"


class PackageUnreachable(PlatformError):
    """An imported package is not stored, and its registry does not answer now."""

    code = "registry_unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSuite:
    """A suite for a run: its metadata, its topology under one profile env, and its files.

    `definition` and `topology` are in wire form (reference: control-plane 9), the topology by level
    and call order; do not change them. `print_lines` has at most 100 lines of 8 KiB. `imports` are
    the suites whose steps it contains, `mocks` the surfaces of each mock node, by its id.
    """

    id: str
    title: str
    repository: str
    version: str
    description: str
    definition: DefinitionDocument
    topology: tuple[Mapping[str, Any], ...]
    files: Mapping[str, bytes]
    content_digest: str
    print_lines: tuple[str, ...]
    imports: tuple[ImportedSuite, ...] = ()
    mocks: Mapping[str, ServedSurfaces] = field(default_factory=dict)
    keep_on_failure_ms: int = 0  # of its environment after a failure, where no profile says


def focus_on(references: Collection[str]) -> None:
    """Let this process read these suites only, and what they import: for commands about one."""
    library.shelf.focus(references)


def read_every_suite() -> None:
    """End what `focus_on` began."""
    library.shelf.read_all()


def source_problems() -> dict[str, str]:
    """Return the sources of suites that could not be listed last, and why."""
    return library.shelf.problems()


def list_suites() -> list[DefinitionDocument]:
    """Return the Definition of every suite, also broken ones, by title and id; do not change them.

    In a server, wait at most 30 ms: a suite whose evaluation takes longer is listed as before its
    files changed or, when new, with the warning `evaluating`. Elsewhere, wait for all of them.
    """
    definitions = [evaluated.definition for evaluated in library.evaluated_suites()]
    return sorted(definitions, key=lambda each: (each["title"].casefold(), each["id"]))


def get_definition(
    suite_id: str, *, profile: str = "", wait_s: float | None = None
) -> DefinitionDocument:
    """Return a suite's Definition under its default or a named profile; do not change it.

    `profile` is a file name or an id. With `wait_s`, a suite that is being evaluated is waited for,
    at most so long. Raise SuiteNotFound, ProfileNotInSuite, ProfileInvalid.
    """
    prepared = None if profile else library.find_prepared(suite_id)
    if prepared and (prepared.is_complete or wait_s is None):
        return prepared.definition
    suite = find_suite(suite_id)
    if not profile:
        return library.evaluate(suite, within_s=wait_s).definition
    env = select_profile(suite.profiles, profile, suite_id=suite.suite_id).env
    return definition_of(suite, library.evaluation(suite, env), library.hydrate(suite))


class ProfileVerdict(TypedDict):
    """Whether a suite resolves under one of its profiles, and to how many steps."""

    fileName: str
    steps: int
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
        error: dict[str, Any] = {"code": invalid.code, "message": said["detail"]}
        error |= {key: said[key] for key in ("file", "line", "column") if key in said}
        return {"fileName": file_name, "steps": 0, "error": error}
    evaluation = _evaluate_fully(suite, env)
    if problem := evaluation.problem:
        return {"fileName": file_name, "steps": 0, "error": problem.as_dict()}
    return {"fileName": file_name, "steps": len(evaluation.topology)}


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
    resolver = library.resolver()
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
            raise InvalidInput(f"{suite_id} is no suite of the workspace; fork it, then lock it")
        folder = conf.suites_dir() / suite.suite_id
        try:
            write_lock(folder, lock)
        except OSError as error:
            raise InvalidInput(f"{folder / lock.path}: {error.strerror}") from None
        _keep_imports(suite.suite_id)
    return lock


def _keep_imports(suite_id: str) -> None:
    """Keep what was pinned, for the next lock's difference; without a store, do without."""
    if not profile_join.files_only:
        keep_contents(library.resolver().closure(find_suite(suite_id)).suites)


def lock_difference(suite_id: str) -> LockComparison:
    """Return what a new lock of a suite would change: nodes, images, env and contracts.

    May ask registries, which takes up to 20 s for each. Raise as `lock_suite` does.
    """
    suite = find_suite(suite_id)
    return compare(library, suite, _new_lock(suite))


def _new_lock(suite: Suite) -> NewLock:
    try:
        return new_lock(suite, library.resolver())
    except TopologyProblem as problem:
        if isinstance(problem, PackageUnavailable) and problem.unreachable:
            raise PackageUnreachable(problem.message) from None
        raise TopologyInvalid(problem) from None


def resolve(suite_id: str, *, profile_env: Mapping[str, str] | None = None) -> ResolvedSuite:
    """Resolve a suite for a run under the env of a profile chain, by default the default profile's.

    `suite_id` may be a repository reference. Wait for the evaluation, at most 20 s. Raise
    SuiteNotFound, PackageInvalid, TopologyInvalid.
    """
    return resolve_suite(find_suite(suite_id), profile_env=profile_env)


def resolve_suite(suite: Suite, *, profile_env: Mapping[str, str] | None = None) -> ResolvedSuite:
    """Resolve a suite that was found before, with just the files that it had then; as `resolve`."""
    if profile_env is None:
        evaluated = library.evaluate(suite)
        evaluation = evaluated.evaluation or SuiteEvaluation()
        return _resolve(evaluated.suite, evaluation, evaluated.definition)
    evaluation = library.evaluation(suite, profile_env)
    definition = definition_of(suite, evaluation, library.hydrate(suite))
    return _resolve(suite, evaluation, definition)


def suite_from_files(suite_id: str, files: Mapping[str, bytes]) -> Suite:
    """Return a suite of files that no source need have any more, with its profiles of now."""
    return profile_join.join_profiles([suite_of(Package(suite_id=suite_id, files=files))])[0]


def every_suite() -> list[Suite]:
    """Return the suites with their profiles, not evaluated."""
    return list(library.suites())


def find_suite_by_id(suite_id: str) -> Suite:
    """Find a suite by its id only, as routes name it; raise SuiteNotFound."""
    suite = find_suite(suite_id)
    if suite.suite_id != suite_id:
        raise SuiteNotFound(f"there is no suite {suite_id[:200]!r}")
    return suite


def find_suite(reference: str) -> Suite:
    """Find a suite by id, else by repository with a tag or digest.

    A package that is not stored yet is pulled, which takes up to 20 s. Raise SuiteNotFound, and
    PlatformError (registry_unreachable, package_invalid) for a package that cannot be had.
    """
    suites = library.suites()
    by_id = [suite for suite in suites if suite.suite_id == reference]
    by_repository = [suite for suite in suites if _is_referenced(suite, reference)]
    for suite in [*by_id, *by_repository]:
        return suite
    try:
        if found := library.shelf.find(reference):
            return found
    except PackageNotFound as error:
        raise SuiteNotFound(error.detail) from None
    known = known_names(library.shelf.ids(), keep_order=True)
    raise SuiteNotFound(f"there is no suite {reference[:200]!r}{known}")


def copy_files(suite: Suite, folder: Path) -> None:
    """Write a suite's files into a new or empty folder.

    Raise FolderTaken, PackageInvalid, InvalidInput.
    """
    if problem := suite.package_problem:
        raise PackageInvalid(problem)
    try:
        folders.write_files(suite.package.files, folder)
    except OSError as error:
        raise InvalidInput(f"{folder}: {error.strerror}") from None


def _is_referenced(suite: Suite, reference: str) -> bool:
    repository = suite.metadata.repository
    named, _, digest = reference.partition("@")
    if digest and digest not in (suite.digest, suite.repository_digest):
        return False
    others = suite.package.origin.also
    if named in others or (digest and named in [each.rpartition(":")[0] for each in others]):
        return True
    return named in (repository, f"{repository}:{suite.metadata.version}")


def _resolve(
    suite: Suite, evaluation: SuiteEvaluation, definition: DefinitionDocument
) -> ResolvedSuite:
    if evaluation.unreachable:
        raise PackageUnreachable(evaluation.unreachable)
    if problem := evaluation.problem:
        raise (PackageInvalid if suite.package_problem else TopologyInvalid)(problem)
    metadata = suite.metadata
    return ResolvedSuite(
        id=suite.suite_id,
        title=metadata.title,
        repository=metadata.repository,
        version=metadata.version,
        description=metadata.description,
        keep_on_failure_ms=metadata.keep_on_failure_ms,
        definition=definition,
        topology=evaluation.topology,
        files=suite.package.files,
        content_digest=suite.digest,
        print_lines=evaluation.printed,
        imports=evaluation.imports,
        mocks=_mocks(suite, evaluation),
    )


def _mocks(suite: Suite, evaluation: SuiteEvaluation) -> dict[str, ServedSurfaces]:
    """Return the surfaces of each mock node; raise TopologyInvalid if one is missing."""
    imports = {each.path: each for each in evaluation.imports}
    mocks: dict[str, ServedSurfaces] = {}
    for node in evaluation.topology:
        if node["kind"] != "mock":
            continue
        path = node["id"].rpartition("/")[0]
        found = library.hydrate(imports[path] if path else suite)
        try:
            at = evaluation.calls.get(node["id"])
            mocks[node["id"]] = served_surfaces(node, found.surfaces, at)
        except TopologyProblem as problem:
            raise TopologyInvalid(problem) from None
    return mocks
