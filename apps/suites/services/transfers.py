"""Suites and modules to and from registries: push and pull (reference: control-plane 5.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from apps.oci import api as oci
from apps.suites.authoring.locks import lock_suite
from apps.suites.dependencies.modules import is_in_workspace, loaded_labels, workspace_module
from apps.suites.domain.definition import Suite, suite_of
from apps.suites.domain.dependencies import split_reference
from apps.suites.domain.package import REGISTRY, Origin
from apps.suites.evaluation.library import library
from apps.suites.selectors import (
    PackageInvalid,
    PackageUnreachable,
    SuiteNotFound,
    TopologyInvalid,
    find_suite,
)
from apps.suites.sources.registry_packages import ids_of, is_remote, package_of
from kernel.errors import InvalidInput


def push_suite(suite_id: str, reference: str, *, force: bool = False) -> oci.Pushed:
    """Push the files of a suite as a package under a tag; takes up to 60 s.

    Raise SuiteNotFound, PackageInvalid, InvalidInput (the reference), PackageNotFound (no registry
    of the settings serves it), RegistryUnreachable, TagTaken unless with `force`.
    """
    suite = find_suite(suite_id)
    if problem := suite.package_problem:
        raise PackageInvalid(problem)
    target = _target(reference)
    # What the files alone say, so that equal files have one digest, whatever their tag and folder.
    of_files = replace(suite.package, suite_id="", origin=Origin(source=REGISTRY))
    stated = suite_of(of_files).metadata
    annotations = {
        "org.opencontainers.image.title": stated.title,
        "org.opencontainers.image.description": stated.description,
    }
    known = {name: text for name, text in annotations.items() if text}
    return oci.push(target, suite.package.files, annotations=known, force=force)


def push_module(label: str, reference: str, *, force: bool = False) -> oci.Pushed:
    """Push a module of the workspace, `@scope/name`, under a tag; takes up to 60 s.

    Raise PackageNotFound, PackageRefused if no suite could load it, and as `push_suite` does.
    """
    files, problem = workspace_module(label)
    if problem:
        raise oci.PackageRefused(problem.code, problem.message)
    target, end = _target(reference), label.removeprefix("@")
    if not f"/{target.path}".endswith(f"/{end}"):
        raise InvalidInput(f"{reference}: the repository must end in {end}, or no lock can pin it")
    annotations = {"org.opencontainers.image.title": label}
    return oci.push(
        target, files, artifact_type=oci.MODULE_TYPE, annotations=annotations, force=force
    )


def _target(reference: str) -> oci.Reference:
    target = oci.parse_reference(reference)
    if not target.tag or target.digest:
        raise InvalidInput(f"{reference}: name a tag, as in {target.repository}:1.0.0")
    return target


def push_warnings(suite_id: str, reference: str) -> list[str]:
    """Return what somebody who pushes a suite should know first; raise SuiteNotFound."""
    moving = "imports refuse the tag `latest`, as it moves; push a version too, such as :1.0.0"
    return [*_warnings(find_suite(suite_id)), *([moving] if reference.endswith(":latest") else ())]


def _warnings(suite: Suite) -> list[str]:
    pinned = suite.dependencies.modules
    loaded = loaded_labels(suite) or []
    warnings: list[str] = []
    if loaded or pinned or suite.dependencies.entries:
        warnings += _warnings_of_lock(suite)
    for alias, entry in sorted(suite.dependencies.entries.items()):
        if not is_remote(split_reference(entry.ref).repository):
            warnings.append(
                f"{alias} ({entry.ref}) is not a registry package; others need a suite of that id"
            )
    return warnings + [
        f"{label} is a module of this workspace; others need a module of that name"
        for label in loaded
        if label not in pinned and is_in_workspace(label)
    ]


def _warnings_of_lock(suite: Suite) -> Iterator[str]:
    renew = f"`partita suite lock {suite.suite_id}` renews it"
    try:
        if not lock_suite(suite.suite_id, write=False).is_current:
            yield f"dependencies.lock.yaml is missing or out of date; {renew}"
    except PackageUnreachable as error:
        yield f"whether the lock is up to date is not known: {error.detail}"
    except TopologyInvalid as error:
        yield f"an import or a module does not resolve: {error.problem.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledSuite:
    """A suite, and whether its package `came` from a registry, now or before.

    `launch_as` is what `run launch` takes for just this content: its id, else its reference.
    """

    suite: Suite
    came: bool
    launch_as: str


def pull_suite(reference: str) -> PulledSuite:
    """Have a suite here: pull its package, which is in every list from then on.

    A repository with a registry's host is asked there, unless a suite of the workspace says that it
    is this repository. Anything else is a suite that this installation has. Raise SuiteNotFound,
    PackageInvalid, RegistryUnreachable.
    """
    repository = split_reference(reference).repository
    local = [
        suite
        for suite in library.suites()
        if suite.source != REGISTRY and suite.metadata.repository == repository
    ]
    if local or not is_remote(repository):
        found = find_suite(reference)
        return PulledSuite(suite=found, came=False, launch_as=found.suite_id)
    return _pull_package(reference)


def _pull_package(reference: str) -> PulledSuite:
    wanted = oci.parse_reference(reference)
    if not (wanted.tag or wanted.digest):
        raise InvalidInput(f"{reference}: name a tag or a digest, as in {reference}:1.0.0")
    try:
        package = oci.pull(wanted)
    except oci.PackageNotFound as error:
        raise SuiteNotFound(error.detail) from None
    if oci.index_package(wanted, package):
        for suite in library.suites():
            if suite.repository_digest == package.digest:
                return PulledSuite(suite=suite, came=True, launch_as=suite.suite_id)
    row = oci.find_repository(wanted.repository)
    suite_id = (row.suite_id if row else "") or ids_of(wanted.repository, package.files)[0]
    suite = suite_of(package_of(suite_id, wanted.repository, wanted.tag, package))
    return PulledSuite(suite=suite, came=True, launch_as=reference)
