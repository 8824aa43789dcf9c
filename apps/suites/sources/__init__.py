"""Where suites come from: one plug-in a source, each in a file of its own in this package.

A source registers its class under its name, and says what there is now (`suites`, contacting
nobody), whether that may have changed (`token`), and what can be had on demand (`find`). Of two
suites with one id, that of the source with the lower `rank` keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from apps.suites.domain.package import Package
from kernel.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedSuite:
    """A suite that a source has, not read yet.

    `key` names it in its source for good. `stamp` looks at its content and changes with it; it is
    called before `read`, and for no suite that is not read. `is_current` tells the same more
    cheaply than another list, for a source whose token does not. `read` makes its
    package under the id that it got: the first of `ids` that no suite before it has. A source that
    must remember that id sets `keep_id`, which is called when it is another than the first.
    `may_be` tells, without reading the suite, whether its repository may be one of these names.
    """

    key: str
    ids: tuple[str, ...]
    stamp: Callable[[], Hashable]
    read: Callable[[str], Package]
    keep_id: Callable[[str], object] | None = None
    is_current: Callable[[], bool] | None = None
    listed_as: str = ""
    may_be: Callable[[Collection[str]], bool] | None = None


class SuiteSource(Protocol):
    """A place that has suites. Its errors never hide the suites of other sources.

    `reads_store`: commands that go by files alone, because the store is away, do not ask it.
    """

    rank: ClassVar[int]
    reads_store: ClassVar[bool]

    def suites(self) -> Sequence[SourcedSuite]:
        """Return the suites that this process can read now; raise when they cannot be known."""
        ...

    def token(self) -> Hashable:
        """Return a cheap value that changes with the suites there are; raise as `suites`."""
        ...

    def find(self, reference: str) -> SourcedSuite | None:
        """Return a suite that `suites()` does not have, or None.

        `reference` is an id, or a repository with a tag or digest. May take 20 s. Raise
        PlatformError if the suite is there but is not available.
        """
        ...


sources: Final[Registry[type[SuiteSource]]] = Registry(
    "suite source", package="apps.suites.sources"
)
