"""Reads: definitions, and a suite resolved for a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from apps.suites import conf
from apps.suites.domain.definition import Evaluation, Suite, definition_of
from apps.suites.domain.problems import TopologyProblem
from apps.suites.domain.profiles import Profile, ProfileInvalid, find_profile, merge_chain
from apps.suites.library import library
from apps.suites.sources import workspace
from kernel.errors import FieldError, InvalidInput, NotFound, PlatformError

_NAMED: Final = 10


def known_names(names: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the first ones that are known."""
    found = sorted(names)
    more = ", …" if len(found) > _NAMED else ""
    return f"; known: {', '.join(found[:_NAMED])}{more}" if found else "; there is none"


class SuiteNotFound(NotFound):
    code = "suite_not_found"


class ProfileNotInSuite(PlatformError):
    """The suite has profiles of other names, which `detail` lists."""

    code = "profile_not_in_suite"

    def __init__(self, suite_id: str, named: str, profiles: Iterable[Profile]) -> None:
        known = known_names(profile.file_name for profile in profiles)
        super().__init__(f"suite {suite_id} has no profile {named[:200]!r}{known}")


class TopologyInvalid(PlatformError):
    """The suite does not resolve.

    `errors[0]` says why and where, `members["topologyError"]` is the wire form with the source
    line.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSuite:
    """A suite as a run takes it: what it is, its topology under one profile env, its files.

    `definition` and `topology` are in wire form (reference: control-plane 9), the topology in wave
    and call order; they are shared, not to be changed. `print_lines`: at most 100, of 8 KiB each.
    """

    id: str
    title: str
    repository: str
    version: str
    description: str
    definition: dict[str, Any]
    topology: tuple[Mapping[str, Any], ...]
    files: Mapping[str, bytes]
    content_digest: str
    print_lines: tuple[str, ...]


def list_suites() -> list[dict[str, Any]]:
    """Every suite's Definition, by title then id, the broken ones too; not to be changed.

    In a server it waits 30 ms at most: a suite whose evaluation takes longer appears as it was
    before its files changed or, when new, with the warning `evaluating`. Elsewhere it waits.
    """
    definitions = [shown.definition for shown in library.shown()]
    return sorted(definitions, key=lambda each: (each["title"].casefold(), each["id"]))


def get_definition(suite_id: str, *, profile: str = "") -> dict[str, Any]:
    """One suite's Definition under its default profile, or under the named one (file name or id).

    Raises SuiteNotFound, ProfileNotInSuite, ProfileInvalid. Not to be changed.
    """
    suite = find_suite(suite_id)
    if not profile:
        return library.show(suite).definition
    env = merge_chain(suite.profiles, _profile(suite, profile)).env
    return definition_of(suite, library.evaluation(suite, env))


def resolve(suite_id: str, *, profile_env: Mapping[str, str] | None = None) -> ResolvedSuite:
    """A suite for a run under the env of a profile chain; None takes the default profile's.

    `suite_id` may be a repository reference. Waits for the evaluation, 5 s at most. Raises
    SuiteNotFound, PackageInvalid, TopologyInvalid.
    """
    suite = find_suite(suite_id)
    if profile_env is None:
        shown = library.show(suite)
        return _resolved(shown.suite, shown.evaluation or Evaluation(), shown.definition)
    evaluation = library.evaluation(suite, profile_env)
    return _resolved(suite, evaluation, definition_of(suite, evaluation))


def profiles_of_suite(suite_id: str) -> tuple[Profile, ...]:
    """A suite's profile files, the default first. Raises SuiteNotFound."""
    return find_suite(suite_id).profiles


def workspace_profiles() -> tuple[Profile, ...]:
    """Every profile file of the workspace, broken ones too. Raises OSError without its folder."""
    list(conf.suites_dir().iterdir())
    return tuple(profile for suite in library.suites() for profile in suite.profiles)


def find_suite(reference: str) -> Suite:
    """By id, else by repository with an optional tag or digest. Raises SuiteNotFound."""
    suites = library.suites()
    by_id = [suite for suite in suites if suite.suite_id == reference]
    by_repository = [suite for suite in suites if _is_meant(suite, reference)]
    for suite in [*by_id, *by_repository]:
        return suite
    known = known_names(suite.suite_id for suite in suites)
    raise SuiteNotFound(f"there is no suite {reference[:200]!r}{known}")


def copy_files(suite: Suite, folder: Path) -> None:
    """Write a suite's files into a folder that is new or empty.

    Raises FolderTaken, PackageInvalid, InvalidInput.
    """
    if problem := suite.package_problem:
        raise PackageInvalid(problem)
    try:
        workspace.write_files(suite.package.files, folder)
    except OSError as error:
        raise InvalidInput(f"{folder}: {error.strerror}") from None


def _is_meant(suite: Suite, reference: str) -> bool:
    repository = suite.metadata.repository
    if reference == repository:
        return True
    named, _, digest = reference.partition("@")
    if digest and digest != suite.digest:
        return False
    return named in (repository, f"{repository}:{suite.metadata.version}")


def _profile(suite: Suite, named: str) -> Profile:
    found = find_profile(suite.profiles, named)
    if found is None:
        raise ProfileNotInSuite(suite.suite_id, named, suite.profiles)
    return found


def _resolved(suite: Suite, evaluation: Evaluation, definition: dict[str, Any]) -> ResolvedSuite:
    if problem := evaluation.problem:
        raise (PackageInvalid if suite.package_problem else TopologyInvalid)(problem)
    metadata = suite.metadata
    return ResolvedSuite(
        id=suite.suite_id,
        title=metadata.title,
        repository=metadata.repository,
        version=metadata.version,
        description=metadata.description,
        definition=definition,
        topology=evaluation.topology,
        files=suite.package.files,
        content_digest=suite.digest,
        print_lines=evaluation.printed,
    )


__all__ = [
    "PackageInvalid",
    "ProfileInvalid",
    "ProfileNotInSuite",
    "ResolvedSuite",
    "SuiteNotFound",
    "TopologyInvalid",
    "copy_files",
    "find_suite",
    "get_definition",
    "list_suites",
    "profiles_of_suite",
    "resolve",
]
