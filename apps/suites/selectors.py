"""Reads: definitions of suites, and suites resolved for a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.oci.api import PackageNotFound
from apps.profiles.api import select_profile
from apps.suites.domain.definition import (
    DefinitionDocument,
    Suite,
    SuiteEvaluation,
    definition_of,
    suite_of,
)
from apps.suites.domain.flat_topology import ImportedSuite
from apps.suites.domain.package import Package
from apps.suites.domain.problems import TopologyProblem
from apps.suites.domain.served_surfaces import ServedSurfaces, served_surfaces
from apps.suites.evaluation.library import library
from apps.suites.profiles import profile_join
from kernel.errors import FieldError, NotFound, PlatformError, known_names
from surfaces import Surface


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
    library.index.focus(references)


def read_every_suite() -> None:
    """End what `focus_on` began."""
    library.index.read_all()


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


def current_suites(suite_ids: Sequence[str]) -> Mapping[str, Suite]:
    """Return those of the suites that exist, read again if their files have changed."""
    return library.index.current(suite_ids)


def hydrated_surfaces(suite: Suite) -> tuple[Surface, ...]:
    """Return the API surfaces of a suite; wait until they are made."""
    return library.hydrate(suite).surfaces


def find_suite_by_id(suite_id: str) -> Suite:
    """Find a suite by its id only, as routes name it; raise SuiteNotFound."""
    suite = find_suite(suite_id)
    if suite.suite_id != suite_id:
        raise SuiteNotFound(f"there is no suite {suite_id[:200]!r}")
    return suite


def find_suite(reference: str) -> Suite:
    """Find a suite by id, else by repository with a tag or digest.

    A package that is not stored yet is pulled, which takes up to 20 s. Raise SuiteNotFound, and
    PlatformError (registry_unreachable, package_invalid) for a package that is not available.
    """
    suites = library.suites()
    by_id = [suite for suite in suites if suite.suite_id == reference]
    by_repository = [suite for suite in suites if _is_referenced(suite, reference)]
    for suite in [*by_id, *by_repository]:
        return suite
    try:
        if found := library.index.find(reference):
            return found
    except PackageNotFound as error:
        raise SuiteNotFound(error.detail) from None
    known = known_names(library.index.ids(), keep_order=True)
    raise SuiteNotFound(f"there is no suite {reference[:200]!r}{known}")


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
