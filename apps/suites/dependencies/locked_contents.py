"""Contents of imported suites that a lock pinned, kept so that a later lock can be compared.

The workspace has only the present content of a suite. Packages of registries are kept anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from apps.streams.api import unit_of_work
from apps.suites.domain.definition import Suite, suite_of
from apps.suites.domain.dependencies import lock_of
from apps.suites.domain.package import REGISTRY, Package
from apps.suites.models import LockedContent
from kernel import clock
from readers.archive import ArchiveRefused, pack, unpack

KEPT: Final = 8  # contents of one suite
MAX_DEPTH: Final = 8


@unit_of_work
def keep_contents(suites: Iterable[Suite]) -> None:
    """Keep the content of each suite that is not a package of a registry."""
    for suite in suites:
        if suite.source == REGISTRY:
            continue
        pinned = LockedContent.objects.filter(digest=suite.digest)
        if not pinned.update(locked_at=clock.now()):
            files = pack(suite.package.files)
            LockedContent.objects.create(
                digest=suite.digest, suite_id=suite.suite_id, files=files, locked_at=clock.now()
            )
        own = LockedContent.objects.filter(suite_id=suite.suite_id).order_by("-locked_at")
        for digest in list(own.values_list("digest", flat=True)[KEPT:]):
            LockedContent.objects.filter(digest=digest).delete()


def earlier_contents(suite: Suite) -> list[Suite]:
    """Return the kept contents that the locks of a suite pin, and those that their locks pin."""
    found: dict[str, Suite] = {}
    waiting = [suite]
    for _ in range(MAX_DEPTH):
        pinned = {
            lock_of(each.dependencies, alias).digest
            for each in waiting
            for alias in each.dependencies.entries
        }
        rows = LockedContent.objects.filter(digest__in=pinned - found.keys())
        waiting = [kept for row in rows if (kept := _suite(row)) is not None]
        if not waiting:
            break
        found |= {each.digest: each for each in waiting}
    return list(found.values())


def _suite(row: LockedContent) -> Suite | None:
    try:
        files = unpack(bytes(row.files))
    except ArchiveRefused:
        return None
    suite = suite_of(Package(suite_id=row.suite_id, files=files))
    return suite if suite.digest == row.digest else None
