"""The Definition of a suite in the API (reference: control-plane 9)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Annotated, Final, Literal, NotRequired, TypedDict

from apps.profiles.api import Profile, default_profile, profiles_of
from apps.suites.domain.dependencies import Dependencies, DependencyDocument, dependencies_of
from apps.suites.domain.flat_topology import ImportedSuite
from apps.suites.domain.metadata import Metadata, metadata_of
from apps.suites.domain.package import REGISTRY, TOPOLOGY_FILE, Package, with_unlike_names
from apps.suites.domain.problems import Position, ProblemDocument, TopologyProblem
from apps.suites.domain.served_surfaces import surface_problem
from apps.suites.domain.topology import ResolvedNode
from kernel.errors import FileWarning, WarningDocument
from kernel.ids import humanize
from kernel.wire_types import Count, Percentage
from readers.archive import content_digest
from surfaces import HydratedSurfaces, Surface, SurfaceDocument

LEFT_OUT_OF_SUMMARY: Final = ("suiteStar", "folders", "sourceFiles", "topology", "apiSurfaces")
EVALUATING: Final = "evaluating"  # neither topology nor topologyError may be known yet
EVALUATED: Final = "evaluated"
_STATE: Final = "evaluated: has topology or topologyError, and its API surfaces"
_SOURCES: Final = "repository:version of each registry that has just this package, if several do"
_POINTS: Final = 20  # per merit
ROLES: Final = {
    "profiles": "Configuration",
    "api": "Contracts",
    "mock": "Mocking",
    "services": "Infrastructure",
    "tasks": "Operations",
    "tests": "Verification",
    "traffic": "Performance",
    "load": "Performance",
}
_LANGUAGES: Final = {
    "yaml": "yaml yml",
    "json": "json",
    "cue": "cue",
    "xml": "xml wsdl xsd",
    "protobuf": "proto",
    "rego": "rego",
    "python": "py",
    "bash": "sh bash",
    "typescript": "ts tsx mts",
    "javascript": "js mjs cjs jsx",
    "csv": "csv",
    "markdown": "md markdown",
    "starlark": "star bzl",
}
LANGUAGE_OF: Final = {
    extension: language
    for language, extensions in _LANGUAGES.items()
    for extension in extensions.split()
}
_MODULE: Final = re.compile(r"^@[^/]+/([^/]+)\Z")
SuiteStatus = Literal["Installed", "Verified", "Invalid"]


class ProfileDocument(TypedDict):
    fileName: str
    label: str
    description: str
    default: bool


class FolderDocument(TypedDict):
    """A top folder of the package; `files` are package paths."""

    name: str
    role: str
    files: list[str]


class SourceFileDocument(TypedDict):
    """A file of the package; `size` in bytes."""

    path: str
    language: str
    size: Count
    content: NotRequired[Annotated[str, "not in lists"]]


class _Optional(TypedDict):
    labels: NotRequired[dict[str, str]]
    digest: NotRequired[Annotated[str, "of the manifest, for a package of a registry"]]
    sources: NotRequired[Annotated[list[str], _SOURCES]]


class _Identity(_Optional):
    id: str
    title: str
    repository: str
    owner: str
    provider: str
    version: str
    tags: list[str]
    description: str
    modules: list[str]


class _LeftOutOfSummary(TypedDict):  # not in summaries, nor is `topology`
    suiteStar: NotRequired[str]
    folders: NotRequired[list[FolderDocument]]
    sourceFiles: NotRequired[list[SourceFileDocument]]
    apiSurfaces: NotRequired[list[SurfaceDocument]]


class _Outcome(TypedDict):
    resolvedDependencies: NotRequired[list[DependencyDocument]]
    topology: NotRequired[list[ResolvedNode]]
    stepCount: NotRequired[Annotated[Count, "the length of `topology`, also in summaries"]]
    topologyError: NotRequired[ProblemDocument]


class DefinitionDocument(_Identity, _LeftOutOfSummary, _Outcome):
    """A suite on the wire; an optional key is absent, never null."""

    status: SuiteStatus
    state: Annotated[Literal["evaluated", "evaluating"], _STATE]
    score: Percentage
    pullCommand: str
    forkCommand: str
    profiles: list[ProfileDocument]
    contracts: list[str]
    launchable: bool
    contentDigest: str
    warnings: list[WarningDocument]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A package with its metadata and profiles, not evaluated.

    `profiles` are those in force: of the package's files, and stored ones over them.
    `file_profiles` are those of the files alone, which suites that import this one use.
    """

    package: Package
    digest: str
    metadata: Metadata
    profiles: tuple[Profile, ...]
    file_profiles: tuple[Profile, ...] = ()
    dependencies: Dependencies = field(default_factory=Dependencies)

    @property
    def suite_id(self) -> str:
        return self.package.suite_id

    @property
    def source(self) -> str:
        """`workspace`, `registered` or `registry`."""
        return self.package.origin.source

    @property
    def repository_digest(self) -> str:
        """The digest of the manifest of a package of a registry, else ""."""
        return self.package.origin.digest

    @property
    def lock_digest(self) -> str:
        """The digest by which a lock pins the suite (reference: control-plane 8, item 3)."""
        return self.repository_digest or self.digest

    @property
    def identity(self) -> str:
        """The name of the suite, whatever its content: no suite contains itself."""
        if self.source == REGISTRY:
            return self.metadata.repository
        return f"{self.source}:{self.suite_id}"

    @property
    def status(self) -> SuiteStatus:
        if self.package_problem:
            return "Invalid"
        return "Verified" if self.source == REGISTRY else "Installed"

    @property
    def package_problem(self) -> TopologyProblem | None:
        """The package rule that is broken; such a suite is not evaluated."""
        if self.package.problem:
            file = self.package.problem_file or None
            return TopologyProblem("package_invalid", self.package.problem, file=file)
        if self.metadata.problem:
            return TopologyProblem(
                "package_invalid",
                self.metadata.problem,
                file=self.metadata.problem_file,
                line=self.metadata.problem_line,
            )
        return self.dependencies.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteEvaluation:
    """The result of suite.star under one profile's env: a topology or a problem.

    `calls` has the positions of the suite's own nodes by id. `imports` and `dependencies` are known
    once imported suites are expanded, and so are the `warnings` about them. An evaluation that was
    `killed` by a limit may succeed on a quieter machine, and one that needs a package of an
    `unreachable` registry (the reason) once that answers.
    """

    topology: tuple[ResolvedNode, ...] = ()
    problem: TopologyProblem | None = None
    loads: tuple[str, ...] = ()
    printed: tuple[str, ...] = ()
    calls: Mapping[str, Position] = field(default_factory=dict)
    imports: tuple[ImportedSuite, ...] = ()
    dependencies: tuple[DependencyDocument, ...] = ()
    warnings: tuple[FileWarning, ...] = ()
    killed: bool = False
    unreachable: str = ""

    def check_surfaces(self, surfaces: Sequence[Surface]) -> SuiteEvaluation:
        """Return it with a problem if a mock of the suite serves none of its `surfaces`."""
        problem = surface_problem(self.topology, surfaces, self.calls)
        return replace(self, topology=(), problem=problem) if problem else self


def suite_of(package: Package) -> Suite:
    package = with_unlike_names(package)
    profiles = profiles_of(package.files)
    return Suite(
        package=package,
        digest=content_digest(package.files),
        metadata=metadata_of(package, profiles),
        profiles=profiles,
        file_profiles=profiles,
        dependencies=dependencies_of(package),
    )


def definition_of(
    suite: Suite, evaluation: SuiteEvaluation | None, hydrated: HydratedSurfaces | None
) -> DefinitionDocument:
    """Return the Definition.

    While the evaluation runs (None), it has the warning `evaluating` instead of `topology` and
    `topologyError`; while contracts are read, the same instead of the API surfaces.
    """
    if evaluation and hydrated:
        evaluation = evaluation.check_surfaces(hydrated.surfaces)
    known = evaluation or SuiteEvaluation()
    resolves = evaluation is not None and evaluation.problem is None
    reference = f"{suite.metadata.repository}:{suite.metadata.version}"
    folder = suite.metadata.repository.rpartition("/")[2]
    launchable_profiles = [profile for profile in suite.profiles if profile.launchable]
    return {
        **_identity(suite, known),
        "status": suite.status,
        "state": EVALUATED if evaluation and hydrated else EVALUATING,
        "score": _score(suite, hydrated, resolves=resolves),
        "pullCommand": f"partita suite pull {reference}",
        "forkCommand": f"partita suite fork {reference} ./{folder}",
        "suiteStar": suite.package.text(TOPOLOGY_FILE),
        "profiles": _profiles(suite),
        "folders": folders(suite.package.files),
        "sourceFiles": source_files(suite.package.files),
        **_outcome(evaluation),
        "contracts": list(dict.fromkeys(known.loads)),
        "apiSurfaces": list(hydrated.documents) if hydrated else [],
        "launchable": resolves and bool(launchable_profiles or not suite.profiles),
        "contentDigest": suite.digest,
        "warnings": [each.as_dict() for each in _warnings(suite, evaluation, hydrated)],
    }


def summary_of(definition: DefinitionDocument) -> dict[str, object]:
    return {key: value for key, value in definition.items() if key not in LEFT_OUT_OF_SUMMARY}


def without_contents(definition: DefinitionDocument) -> DefinitionDocument:
    """Return the definition for lists: `sourceFiles` without their text."""
    files: list[SourceFileDocument] = [
        {"path": file["path"], "language": file["language"], "size": file["size"]}
        for file in definition["sourceFiles"]
    ]
    return {**definition, "sourceFiles": files}


def _identity(suite: Suite, known: SuiteEvaluation) -> _Identity:
    metadata = suite.metadata
    loaded = {match[1] for label in known.loads if (match := _MODULE.match(label))}
    optional: _Optional = {"labels": dict(metadata.labels)} if metadata.labels else {}
    if suite.repository_digest:
        optional["digest"] = suite.repository_digest
    if also := suite.package.origin.also:
        optional["sources"] = [f"{metadata.repository}:{metadata.version}", *also]
    return {
        "id": suite.suite_id,
        "title": metadata.title,
        "repository": metadata.repository,
        "owner": metadata.owner,
        "provider": suite.package.origin.provider,
        "version": metadata.version,
        **optional,
        "tags": list(metadata.tags),
        "description": metadata.description,
        "modules": sorted(loaded | {name for each in suite.profiles for name in each.modules}),
    }


def _score(suite: Suite, hydrated: HydratedSurfaces | None, *, resolves: bool) -> int:
    """Return 20 points for each of five merits (reference: control-plane 5.1)."""
    surfaces = hydrated.surfaces if hydrated else ()
    merits = (
        suite.metadata.has_readme,
        bool(suite.metadata.description),
        any(profile.launchable for profile in suite.profiles),
        any(
            each.contract_path in suite.package.files
            for surface in surfaces
            for each in surface.operations
        ),
        resolves,
    )
    return _POINTS * sum(merits)


def _profiles(suite: Suite) -> list[ProfileDocument]:
    chosen = default_profile(suite.profiles)
    shown: list[ProfileDocument] = [
        {
            "fileName": profile.file_name,
            "label": profile.label,
            "description": profile.description,
            "default": profile is chosen,
        }
        for profile in suite.profiles
        if profile.launchable
    ]
    return sorted(shown, key=lambda profile: not profile["default"])


def _outcome(evaluation: SuiteEvaluation | None) -> _Outcome:
    if evaluation is None:
        return {}
    if evaluation.problem:
        return {"topologyError": evaluation.problem.as_dict()}
    nodes = list(evaluation.topology)
    outcome: _Outcome = {"topology": nodes, "stepCount": len(nodes)}
    if evaluation.dependencies:
        outcome["resolvedDependencies"] = list(evaluation.dependencies)
    return outcome


def _warnings(
    suite: Suite, evaluation: SuiteEvaluation | None, hydrated: HydratedSurfaces | None
) -> list[FileWarning]:
    found = [*suite.metadata.warnings, *suite.dependencies.warnings]
    for profile in suite.profiles:
        problems = [replace(profile.problem, code="profile_invalid")] if profile.problem else []
        found += [
            FileWarning(code=each.code, detail=each.detail, file=each.file, line=each.line)
            for each in (*profile.warnings, *problems)
        ]
    found += evaluation.warnings if evaluation else ()
    if evaluation is None:
        detail = "suite.star is being evaluated; reload this suite for its topology"
        found.append(FileWarning(code="evaluating", detail=detail))
    if hydrated is None:
        detail = "api/ and mock/ are being read; reload this suite for its API surfaces"
        found.append(FileWarning(code="evaluating", detail=detail))
    return [*found, *(hydrated.warnings if hydrated else ())]


def language(path: str) -> str:
    return LANGUAGE_OF.get(PurePosixPath(path).suffix[1:].lower(), "text")


def source_files(files: Mapping[str, bytes]) -> list[SourceFileDocument]:
    """Return the files by path."""
    return [
        {
            "path": path,
            "language": language(path),
            "size": len(files[path]),
            "content": files[path].decode(errors="replace"),
        }
        for path in sorted(files)
    ]


def folders(files: Mapping[str, bytes]) -> list[FolderDocument]:
    """Return the top folders by name."""
    inside: dict[str, list[str]] = {}
    for path in sorted(files):
        folder, slash, _ = path.partition("/")
        if slash:
            inside.setdefault(folder, []).append(path)
    return [
        {"name": name, "role": ROLES.get(name) or humanize(name), "files": inside[name]}
        for name in sorted(inside)
    ]
