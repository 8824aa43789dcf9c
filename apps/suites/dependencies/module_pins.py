"""The modules of registries that a new lock pins (reference: control-plane 7.6 and 8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from apps.oci import api as oci
from apps.suites.dependencies.modules import (
    UNREACHABLE,
    is_in_workspace,
    loaded_labels,
    module_of,
    pinned_module,
)
from apps.suites.dependencies.resolution import PackageUnavailable
from apps.suites.domain.definition import Suite
from apps.suites.domain.dependencies import LATEST, split_reference
from apps.suites.domain.package import TOPOLOGY_FILE
from apps.suites.domain.problems import TopologyProblem
from kernel.errors import PlatformError


def new_pins(suite: Suite) -> dict[str, str]:
    """Return the pins of a new lock by label, each `repository@sha256:…`.

    A module of the workspace needs none. A pin stays with its repository and follows its chosen
    version; one that no `load` uses is left out. Registries are asked what tags mean now. Raise
    TopologyProblem: `module_not_found`, or PackageUnavailable for a registry that does not answer.
    """
    present = suite.dependencies.modules
    labels = loaded_labels(suite)
    if labels is None:  # the text does not parse, so nobody knows
        return dict(present)
    index = _Index()
    return {
        label: _renew(index, label, present[label])
        if label in present
        else _first_pin(index, label)
        for label in labels
        if label in present or not is_in_workspace(label)
    }


def needed_pins(suite: Suite) -> list[str]:
    """Return the labels of modules that a suite loads and that the workspace does not have."""
    return [label for label in loaded_labels(suite) or () if not is_in_workspace(label)]


@dataclass(slots=True)
class _Index:
    """The repositories that registries offer, read once if they are needed."""

    _rows: tuple[oci.Repository, ...] | None = field(default=None)

    def versions(self) -> Iterator[oci.Repository]:
        """Yield the repositories that have a version to pin."""
        if self._rows is None:
            self._rows = oci.list_repositories()
        yield from (row for row in self._rows if row.version not in ("", LATEST))


def _first_pin(index: _Index, label: str) -> str:
    end = label.removeprefix("@")
    for row in index.versions():
        if f"/{row.path}".endswith(f"/{end}") and _is_module(row):
            return _newest_pin(label, row)
    raise TopologyProblem(
        "module_not_found",
        f"{label}: the workspace has no such module, and no registry has one with a version in a "
        f"repository that ends in {end}; push it with `partita suite push {label} "
        f"HOST/{end}:1.0.0`, then synchronize with `partita settings registries sync ID`",
    )


def _renew(index: _Index, label: str, pin: str) -> str:
    """Return a pin to the chosen version of its repository; without one, the pin stays."""
    repository = split_reference(pin).repository
    known = (row for row in index.versions() if row.repository == repository)
    row = next(known, None)
    return _check(label, pin) if row is None else _newest_pin(label, row)


def _newest_pin(label: str, row: oci.Repository) -> str:
    try:
        package = oci.pull(f"{row.repository}:{row.version}")
    except oci.RegistryUnreachable as error:
        raise PackageUnavailable(f"{label}: {error.detail}", unreachable=error.detail) from None
    except PlatformError as error:
        raise TopologyProblem("module_not_found", f"{label}: {error.detail}") from None
    return _check(label, f"{row.repository}@{package.digest}")


def _check(label: str, pin: str) -> str:
    """Return a pin whose module can be had."""
    module = pinned_module(pin)
    if module["code"] == UNREACHABLE:
        raise PackageUnavailable(f"{label}: {module['problem']}", unreachable=module["problem"])
    if module["problem"]:
        raise TopologyProblem(module["code"], f"{label}: {module['problem']}")
    return pin


def _is_module(row: oci.Repository) -> bool:
    """Tell whether a repository says that it is a module, or has the content of one."""
    if row.artifact_type in (oci.MODULE_TYPE, oci.SUITE_TYPE) or not row.pulled:
        return row.artifact_type == oci.MODULE_TYPE
    try:
        package = oci.stored_package(row.digest)
    except PlatformError:  # damaged content is none
        return False
    files = package.files if package else {}
    return TOPOLOGY_FILE not in files and not module_of(files, "")["problem"]
