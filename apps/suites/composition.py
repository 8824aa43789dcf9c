"""The topology of a suite together with the suites that it imports (reference: control-plane 8)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from apps.profiles.api import LaunchProfile, ProfileInvalid, ProfileNotInSuite, select_profile
from apps.suites import conf
from apps.suites.domain.definition import Suite, SuiteEvaluation
from apps.suites.domain.dependencies import DependencyDocument, Pin, parsed_reference, pin_of
from apps.suites.domain.flattening import IMPORT, ExpandedImport, ImportedSuite, below, flatten
from apps.suites.domain.problems import TopologyProblem
from apps.suites.domain.topology import ResolvedNode
from kernel.errors import known_names

MAX_DEPTH: Final = 8
MAX_PRINTED: Final = 100
_SHOWN_DIGEST: Final = 19  # characters: sha256: and 12 digits


def closure_digest(suite: Suite, suites: Sequence[Suite]) -> str:
    """Return a value that changes with the content of every suite that may be imported.

    It is empty for a suite without dependencies.
    """
    if not suite.dependencies.entries:
        return ""
    reached: dict[str, Suite] = {}
    waiting = [suite]
    while waiting:
        for entry in waiting.pop().dependencies.entries.values():
            for found in candidates(parsed_reference(entry.ref).repository, suites):
                if found.suite_id not in reached:
                    reached[found.suite_id] = found
                    waiting.append(found)
    contents = "\n".join(f"{key} {reached[key].digest}" for key in sorted(reached))
    return hashlib.sha256(contents.encode()).hexdigest()


def candidates(repository: str, suites: Sequence[Suite]) -> list[Suite]:
    """Return the suites with this id or repository, the one with the id first."""
    by_id = [suite for suite in suites if suite.suite_id == repository]
    named = [suite for suite in suites if suite.metadata.repository == repository]
    return [*by_id, *(suite for suite in named if suite not in by_id)]


def chosen_suite(pin: Pin, suites: Sequence[Suite]) -> Suite:
    """Return the suite that a pin asks for.

    Raise TopologyProblem `dependency_unresolved` or `digest_mismatch`.
    """
    found = candidates(pin.repository, suites)
    if not found:
        known = known_names(suite.suite_id for suite in suites)
        raise TopologyProblem("dependency_unresolved", f'there is no suite "{pin.ref}"{known}')
    fitting = [suite for suite in found if pin.version in ("", suite.metadata.version)]
    if not fitting:
        versions = ", ".join(sorted({suite.metadata.version for suite in found}))
        raise TopologyProblem(
            "dependency_unresolved",
            f'"{pin.repository}" has no version {pin.version}; the workspace has {versions}',
        )
    if not pin.digest:
        return fitting[0]
    for suite in fitting:
        if suite.digest == pin.digest:
            return suite
    raise TopologyProblem(
        "digest_mismatch",
        f'"{pin.ref}" is pinned to {pin.digest[:_SHOWN_DIGEST]}…, but its content is '
        f"{fitting[0].digest[:_SHOWN_DIGEST]}…; if that change is wanted, renew the lock "
        "with `manage.py suite lock`",
    )


class Composition:
    """One evaluation of a suite with its imports; `evaluate` evaluates one suite without them."""

    def __init__(
        self,
        suites: Sequence[Suite],
        evaluate: Callable[[Suite, Mapping[str, str]], SuiteEvaluation],
    ) -> None:
        self._suites = suites
        self._evaluate = evaluate
        self._done: dict[tuple[str, str], tuple[SuiteEvaluation, int]] = {}

    def whole(self, suite: Suite, env: Mapping[str, str]) -> SuiteEvaluation:
        """Return the flat topology of a suite under a profile env, or the problem."""
        return self._composed(suite, env, ())[0]

    def _composed(
        self, suite: Suite, env: Mapping[str, str], importers: tuple[str, ...]
    ) -> tuple[SuiteEvaluation, int]:
        """Return the evaluation, and how many levels of imports it has."""
        own = self._evaluate(suite, env)
        if own.problem:
            return (_with_place(own, suite) if importers else own), 0
        if all(node["kind"] != IMPORT for node in own.topology):
            return own, 0
        try:
            return self._expanded(suite, own, (*importers, suite.suite_id))
        except TopologyProblem as problem:
            failed = replace(own, topology=(), problem=problem)
            return replace(failed, killed=problem.code == "limit_exceeded"), 0

    def _expanded(
        self, suite: Suite, own: SuiteEvaluation, importers: tuple[str, ...]
    ) -> tuple[SuiteEvaluation, int]:
        imports: dict[str, ExpandedImport] = {}
        inner: dict[str, SuiteEvaluation] = {}
        height = 0
        for node in _import_nodes(own):
            try:
                found, evaluation, levels = self._import(suite, node, importers)
            except TopologyProblem as problem:
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
            printed=tuple(_printed(own, inner.values()))[:MAX_PRINTED],
            imports=tuple(_suites_inside(imports, inner)),
            dependencies=tuple(_document(each) for _, each in sorted(pins.items())),
        )
        return evaluation, height

    def _import(
        self, importer: Suite, node: ResolvedNode, importers: tuple[str, ...]
    ) -> tuple[ExpandedImport, SuiteEvaluation, int]:
        pin = pin_of(importer.dependencies, node["ref"])
        suite = chosen_suite(pin, self._suites)
        if suite.suite_id in importers:
            cycle = " -> ".join([*importers[importers.index(suite.suite_id) :], suite.suite_id])
            raise TopologyProblem("suite_cycle", f"suites import each other: {cycle}")
        profile = _profile_of(suite, pin)
        key = suite.suite_id, profile.file_name
        if key not in self._done:
            self._done[key] = self._composed(suite, profile.env, importers)
        evaluation, height = self._done[key]
        if evaluation.problem:
            raise evaluation.problem
        if height + 1 > MAX_DEPTH:
            raise TopologyProblem(
                "invalid_value", f"suites are imported more than {MAX_DEPTH} levels deep"
            )
        imported = ImportedSuite(
            path=node["id"],
            suite_id=suite.suite_id,
            title=suite.metadata.title,
            repository=suite.metadata.repository,
            version=suite.metadata.version,
            digest=suite.digest,
            files=suite.package.files,
            secret_refs=profile.secret_refs,
        )
        found = ExpandedImport(
            pin=pin, suite=imported, profile=profile, topology=evaluation.topology
        )
        return found, evaluation, height


def _import_nodes(own: SuiteEvaluation) -> Iterator[ResolvedNode]:
    return (node for node in own.topology if node["kind"] == IMPORT)


def _profile_of(suite: Suite, pin: Pin) -> LaunchProfile:
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


def _printed(own: SuiteEvaluation, inner: Iterable[SuiteEvaluation]) -> Iterator[str]:
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
