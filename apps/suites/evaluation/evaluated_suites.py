"""A suite with all that is made of it, and for how long that holds."""

from __future__ import annotations

import time
from dataclasses import dataclass

from apps.suites.dependencies.modules import modules_digest
from apps.suites.dependencies.resolution import Closure
from apps.suites.domain.definition import DefinitionDocument, Suite, SuiteEvaluation
from apps.suites.domain.package import REGISTRY
from apps.suites.evaluation.snapshot import LibrarySnapshot
from surfaces import HydratedSurfaces


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedSuite:
    """A suite, its evaluation under its default profile and its API surfaces.

    Each is None while it is being made.
    """

    suite: Suite
    evaluation: SuiteEvaluation | None
    hydrated: HydratedSurfaces | None
    definition: DefinitionDocument

    @property
    def is_complete(self) -> bool:
        return self.evaluation is not None and self.hydrated is not None

    def is_of(
        self, suite: Suite, evaluation: SuiteEvaluation | None, hydrated: HydratedSurfaces | None
    ) -> bool:
        """Return whether it was made from just these."""
        made_from = (self.suite, self.evaluation, self.hydrated)
        return all(a is b for a, b in zip(made_from, (suite, evaluation, hydrated), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSuite:
    """An evaluated suite that holds while its snapshot and the modules that it loads are the same.

    `until` is of time.monotonic().
    """

    evaluated: EvaluatedSuite
    snapshot: LibrarySnapshot
    closure: Closure
    modules: str  # the digest of the modules that it and its imports load
    until: float

    @property
    def watched(self) -> frozenset[str]:
        """The ids of the suites that it consists of, but packages of registries."""
        local = (each.suite_id for each in self.closure.suites if each.source != REGISTRY)
        return frozenset({self.evaluated.suite.suite_id, *local})

    def is_valid(self) -> bool:
        """Return whether its time has not passed and its modules have not changed."""
        if self.until < time.monotonic():
            return False
        return self.modules == modules_digest([self.evaluated.suite, *self.closure.suites])

    def is_of(self, suite: Suite, snapshot: LibrarySnapshot) -> bool:
        """Return whether it was made from this suite, and from what it depends on as it is."""
        if self.evaluated.suite is not suite:
            return False
        alone = not suite.dependencies.entries and self.snapshot.rules == snapshot.rules
        return alone or self.snapshot is snapshot
