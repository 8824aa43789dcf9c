"""Which suite a dependency asks for (reference: control-plane 8, items 2 to 5)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from apps.oci import api as oci
from apps.suites.domain.definition import Suite
from apps.suites.domain.dependencies import Pin, pin_of
from apps.suites.domain.package import REGISTRY
from apps.suites.domain.problems import TopologyProblem
from apps.suites.sources.registry_packages import PackagePin, Packages, is_remote, packages
from kernel.errors import PlatformError, known_names

_SHOWN_DIGEST: Final = 19  # characters: sha256: and 12 digits
UNREACHABLE: Final = "registry_unreachable"


class PackageUnavailable(TopologyProblem):
    """A package that its registry did not give.

    `unreachable` is the reason if it may give it later.
    """

    def __init__(self, message: str, *, unreachable: str = "") -> None:
        super().__init__("dependency_unresolved", message)
        self.unreachable = unreachable


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """All that a suite may import.

    `digest` changes with any of it. `is_whole` is False while a package has to be pulled first, and
    `is_pinned` is False if a tag of a registry is among it, which may mean another package later.
    `reached` are the importers, pins and suites.
    """

    digest: str = ""
    is_whole: bool = True
    is_pinned: bool = True
    reached: tuple[tuple[Suite, Pin, Suite], ...] = ()

    @property
    def suites(self) -> list[Suite]:
        """The suites that are reached."""
        return [suite for _, _, suite in self.reached]


class Resolver:
    """Answers from the suites of this process, and from packages of registries."""

    def __init__(
        self,
        suites: Sequence[Suite],
        registries: Packages = packages,
        *,
        earlier: Sequence[Suite] = (),
        ids: Sequence[str] = (),
    ) -> None:
        """Take further contents of suites with `earlier`: those that only a digest asks for.

        `ids` are those that a hint names, in this order, where there are more than these suites.
        """
        self._known_ids = ids or [suite.suite_id for suite in suites]
        self._registries = registries
        self._earlier = earlier
        self._ids = {suite.suite_id: suite for suite in suites}
        self._named: dict[str, list[Suite]] = {}
        for suite in suites:
            self._named.setdefault(suite.metadata.repository, []).append(suite)

    def lists(self, suite: Suite) -> bool:
        """Return whether this is the suite with its id."""
        return self._ids.get(suite.suite_id) is suite

    def candidates(self, repository: str) -> list[Suite]:
        """Return the suites with this id or repository, the one with the id first."""
        by_id = [self._ids[repository]] if repository in self._ids else []
        named = [each for each in self._named.get(repository, ()) if each not in by_id]
        earlier = [
            each
            for each in self._earlier
            if repository in (each.suite_id, each.metadata.repository)
        ]
        return [*by_id, *named, *earlier]

    def suite(self, pin: Pin, *, newest: bool = False) -> Suite:
        """Return the suite that a pin asks for; pull it if need be.

        With `newest`, the registry is asked what a tag means now. Raise TopologyProblem
        `dependency_unresolved`, `version_required` or `digest_mismatch`;
        PackageUnavailable is one of them.
        """
        found = self._local(pin)
        if isinstance(found, Suite):
            return found
        try:
            kept = None if newest and not found.digest else self._registries.find_kept(found)
            return kept or self._registries.pull(found)
        except PlatformError as error:
            raise _unavailable(pin, error) from None

    def find_kept(self, pin: Pin) -> Suite | None:
        """Find the same without contacting a registry; return None if one has to be asked."""
        found = self._local(pin)
        if isinstance(found, Suite):
            return found
        try:
            return self._registries.find_kept(found)
        except PlatformError as error:
            raise _unavailable(pin, error) from None

    def closure(self, suite: Suite) -> Closure:
        """Return all that a suite may import, directly or not, as far as it is known."""
        if not suite.dependencies.entries:
            return Closure()
        lines: list[str] = []
        reached: list[tuple[Suite, Pin, Suite]] = []
        seen = {suite.identity + suite.digest}
        whole = pinned = True
        waiting = [suite]
        while waiting:
            importer = waiting.pop()
            for alias in sorted(importer.dependencies.entries):
                try:
                    pin = pin_of(importer.dependencies, alias)
                    found = self.find_kept(pin)
                except TopologyProblem as problem:
                    lines.append(f"{importer.digest} {alias} {problem.code} {problem.message}")
                    continue
                whole &= found is not None
                if found is None:
                    continue
                pinned &= bool(pin.digest) or found.source != REGISTRY
                mark = f"{found.identity}{found.digest}"
                lines.append(f"{importer.digest} {alias} {found.suite_id} {mark}")
                reached.append((importer, pin, found))
                if mark not in seen:
                    seen.add(mark)
                    waiting.append(found)
        contents = "\n".join(lines)
        return Closure(
            digest=hashlib.sha256(contents.encode()).hexdigest(),
            is_whole=whole,
            is_pinned=pinned,
            reached=tuple(reached),
        )

    def _local(self, pin: Pin) -> Suite | PackagePin:
        """Return a suite of the workspace or a registered one, else which package to ask for."""
        found = self.candidates(pin.repository)
        local = [each for each in found if each.source != REGISTRY]
        fitting = [each for each in local if pin.version in ("", each.metadata.version)]
        exact = [each for each in fitting if pin.digest in ("", each.digest)]
        if exact:
            return exact[0]
        repository = pin.repository
        if not is_remote(repository):
            repository = next((each.metadata.repository for each in found if each not in local), "")
        if not repository:
            raise self._unresolved_problem(pin, local, fitting)
        if not (pin.version or pin.digest):
            raise TopologyProblem(
                "version_required",
                f'"{pin.ref}" is a package of a registry; name its version or its digest',
            )
        return PackagePin(repository=repository, version=pin.version, digest=pin.digest)

    def _unresolved_problem(
        self, pin: Pin, local: Sequence[Suite], fitting: Sequence[Suite]
    ) -> TopologyProblem:
        if not local:
            known = known_names(self._known_ids, keep_order=True)
            return TopologyProblem("dependency_unresolved", f'there is no suite "{pin.ref}"{known}')
        if not fitting:
            versions = ", ".join(sorted({suite.metadata.version for suite in local}))
            return TopologyProblem(
                "dependency_unresolved",
                f'"{pin.repository}" has no version {pin.version}; the workspace has {versions}',
            )
        return TopologyProblem(
            "digest_mismatch",
            f'"{pin.ref}" is pinned to {pin.digest[:_SHOWN_DIGEST]}…, but its content is '
            f"{fitting[0].digest[:_SHOWN_DIGEST]}…; if that change is wanted, renew the lock "
            "with `partita suite lock`",
        )


def with_digest(pin: Pin, suite: Suite) -> Pin:
    """Return the pin with the digest of the package that was found for it."""
    return replace(pin, digest=pin.digest or suite.repository_digest)


def _unavailable(pin: Pin, error: PlatformError) -> TopologyProblem:
    if error.problem_code == UNREACHABLE:
        return PackageUnavailable(f"{pin.ref}: {error.detail}", unreachable=error.detail)
    if isinstance(error, oci.DigestMismatch):
        return TopologyProblem("digest_mismatch", error.detail)
    return PackageUnavailable(f'"{pin.ref}" is not available: {error.detail}')
