"""The topology of a suite together with the suites that it imports (reference: control-plane 8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from apps.profiles.api import LaunchProfile, ProfileInvalid, ProfileNotInSuite, select_profile
from apps.suites import conf
from apps.suites.dependencies.resolution import PackageUnavailable, Resolver, with_digest
from apps.suites.domain.definition import Suite, SuiteEvaluation
from apps.suites.domain.dependencies import FILES, DependencyDocument, Pin, pin_of
from apps.suites.domain.flat_topology import IMPORT, ExpandedImport, ImportedSuite, below, flatten
from apps.suites.domain.problems import TopologyProblem
from apps.suites.domain.topology import ResolvedNode
from kernel.errors import FileWarning

MAX_DEPTH: Final = 8
MAX_PRINTED: Final = 100


class Composition:
    """One evaluation of a suite with its imports; `evaluate` evaluates one suite without them."""

    def __init__(
        self,
        resolver: Resolver,
        evaluate: Callable[[Suite, Mapping[str, str]], SuiteEvaluation],
    ) -> None:
        self._resolver = resolver
        self._evaluate = evaluate
        self._unreachable = ""
        self._done: dict[tuple[str, str, str], tuple[SuiteEvaluation, int]] = {}

    def whole(self, suite: Suite, env: Mapping[str, str]) -> SuiteEvaluation:
        """Return the flat topology of a suite under a profile env, or the problem."""
        return self._compose(suite, env, ())[0]

    def _compose(
        self, suite: Suite, env: Mapping[str, str], importers: tuple[Suite, ...]
    ) -> tuple[SuiteEvaluation, int]:
        """Return the evaluation, and how many levels of imports it has."""
        own = self._evaluate(suite, env)
        if own.problem:
            return (_with_place(own, suite) if importers else own), 0
        if all(node["kind"] != IMPORT for node in own.topology):
            return own, 0
        try:
            return self._expand(suite, own, (*importers, suite))
        except TopologyProblem as problem:
            failed = replace(
                own,
                topology=(),
                problem=problem,
                killed=problem.code == "limit_exceeded",
                unreachable=self._unreachable,
            )
            return failed, 0

    def _expand(
        self, suite: Suite, own: SuiteEvaluation, importers: tuple[Suite, ...]
    ) -> tuple[SuiteEvaluation, int]:
        imports: dict[str, ExpandedImport] = {}
        inner: dict[str, SuiteEvaluation] = {}
        height = 0
        for node in _import_nodes(own):
            try:
                found, evaluation, levels = self._import(suite, node, importers)
            except TopologyProblem as problem:
                if isinstance(problem, PackageUnavailable):
                    self._unreachable = self._unreachable or problem.unreachable
                message = f"{node['ref']}: {problem.message}"
                raise TopologyProblem(problem.code, message, **own.calls[node["id"]]) from None
            imports[node["id"]], inner[node["id"]] = found, evaluation
            height = max(height, levels + 1)
        topology = flatten(
            own.topology,
            imports,
            own.calls,
            env_prefixes=conf.env_prefixes(),
            max_nodes=conf.max_nodes(),
        )
        pins = {each.pin.alias: each for each in imports.values()}
        evaluation = replace(
            own,
            topology=topology,
            printed=tuple(_all_printed_lines(own, inner.values()))[:MAX_PRINTED],
            imports=tuple(_suites_inside(imports, inner)),
            dependencies=tuple(_document(each) for _, each in sorted(pins.items())),
            warnings=tuple(_warnings(suite, pins.values())),
        )
        return evaluation, height

    def _import(
        self, importer: Suite, node: ResolvedNode, importers: tuple[Suite, ...]
    ) -> tuple[ExpandedImport, SuiteEvaluation, int]:
        pin = pin_of(importer.dependencies, node["ref"])
        suite = self._resolver.suite(pin)
        pin = with_digest(pin, suite)
        if cycle := _cycle(suite, importers):
            raise TopologyProblem("suite_cycle", f"suites import each other: {cycle}")
        if len(importers) > MAX_DEPTH:
            raise _too_deep()
        profile = profile_of(suite, pin)
        key = suite.identity, suite.digest, profile.file_name
        if key not in self._done:
            self._done[key] = self._compose(suite, profile.env, importers)
        evaluation, height = self._done[key]
        if evaluation.problem:
            raise evaluation.problem
        if height + 1 > MAX_DEPTH:
            raise _too_deep()
        imported = ImportedSuite(
            path=node["id"],
            suite_id=suite.suite_id,
            title=suite.metadata.title,
            repository=suite.metadata.repository,
            version=suite.metadata.version,
            digest=suite.digest,
            files=suite.package.files,
            secret_refs=profile.secret_refs,
            is_package=bool(suite.repository_digest),
        )
        found = ExpandedImport(
            pin=pin, suite=imported, profile=profile, topology=evaluation.topology
        )
        return found, evaluation, height


def _too_deep() -> TopologyProblem:
    return TopologyProblem(
        "invalid_value", f"suites are imported more than {MAX_DEPTH} levels deep"
    )


def _cycle(suite: Suite, importers: Sequence[Suite]) -> str:
    """Return the path from a suite to itself, "" if it does not contain itself."""
    identities = [each.identity for each in importers]
    if suite.identity not in identities:
        return ""
    again = importers[identities.index(suite.identity) :]
    return " -> ".join(each.suite_id for each in (*again, suite))


def _warnings(suite: Suite, imports: Iterable[ExpandedImport]) -> Iterator[FileWarning]:
    for each in imports:
        if each.suite.is_package and not each.pin.locked:
            yield FileWarning(
                code="unlocked_dependency",
                detail=f"{each.pin.alias}: {each.pin.ref} is a package of a registry without a "
                "lock; `partita suite lock` pins its content",
                file=suite.package.first_of(*FILES),
            )


def _import_nodes(own: SuiteEvaluation) -> Iterator[ResolvedNode]:
    return (node for node in own.topology if node["kind"] == IMPORT)


def profile_of(suite: Suite, pin: Pin) -> LaunchProfile:
    """Return the profile of an imported suite, from its files."""
    try:
        return select_profile(suite.file_profiles, pin.profile, suite_id=suite.suite_id)
    except ProfileNotInSuite as error:
        raise TopologyProblem("dependency_profile_missing", error.detail) from None
    except ProfileInvalid as error:
        raise TopologyProblem("profile_invalid", f"{suite.suite_id}: {error.detail}") from None


def _with_place(own: SuiteEvaluation, suite: Suite) -> SuiteEvaluation:
    """Return a failed evaluation whose message names the place in the imported suite."""
    problem = own.problem
    assert problem is not None, "called for failed evaluations only"
    parts = [problem.file, problem.line, problem.column]
    place = ":".join(str(part) for part in parts if part is not None)
    message = f"{problem.message} ({suite.suite_id}/{place})" if place else problem.message
    return replace(own, problem=TopologyProblem(problem.code, message))


def _all_printed_lines(own: SuiteEvaluation, inner: Iterable[SuiteEvaluation]) -> Iterator[str]:
    yield from own.printed
    for evaluation in inner:
        yield from evaluation.printed


def _suites_inside(
    imports: Mapping[str, ExpandedImport], inner: Mapping[str, SuiteEvaluation]
) -> Iterator[ImportedSuite]:
    """Yield the imported suites and, below their paths, those that they import."""
    for path, each in imports.items():
        yield each.suite
        yield from (below(path, deeper) for deeper in inner[path].imports)


def _document(each: ExpandedImport) -> DependencyDocument:
    pin, suite = each.pin, each.suite
    document: DependencyDocument = {
        "alias": pin.alias,
        "ref": pin.ref,
        "resolved": pin.resolved,
        "suiteId": suite.suite_id,
        "suiteTitle": suite.title,
        "repository": suite.repository,
        "locked": pin.locked,
    }
    if pin.version:
        document["version"] = pin.version
    if pin.digest:
        document["digest"] = pin.digest
    if each.profile.file_name:
        document["profile"] = each.profile.file_name
    if pin.inputs:
        document["inputs"] = dict(pin.inputs)
    return document
