"""Suites that were registered as text, in the primary store (reference: control-plane 9)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import ClassVar, Final

from django.db import connection

from apps.operations.api import generation
from apps.suites.domain.package import REGISTERED, Origin, Package
from apps.suites.models import RegisteredSuite
from apps.suites.sources import SourcedSuite, sources
from readers.archive import ArchiveRefused, content_digest, unpack

TOPIC: Final = "suites"  # its generation rises with every change of the rows
_ORIGIN: Final = Origin(source=REGISTERED)


@sources.register("registered")
class RegisteredSource:
    """Asks the store for the generation of the rows at each call: all processes see a change."""

    rank: ClassVar[int] = 1
    reads_store: ClassVar[bool] = True

    def __init__(self) -> None:
        self._kept: tuple[int, Sequence[SourcedSuite]] | None = None

    def suites(self) -> Sequence[SourcedSuite]:
        number = generation(TOPIC)
        kept = self._kept
        if kept and kept[0] == number and not connection.in_atomic_block:
            return kept[1]
        rows = RegisteredSuite.objects.order_by("suite_id").values_list("suite_id", "digest")
        found = [
            SourcedSuite(
                key=suite_id,
                ids=(suite_id, f"{suite_id}-registered"),
                stamp=partial(str, digest),
                read=partial(_read, key=suite_id),
            )
            for suite_id, digest in rows
        ]
        if not connection.in_atomic_block:  # it may see what is never committed
            self._kept = number, found
        return found

    def token(self) -> Hashable:
        return generation(TOPIC)

    def find(self, reference: str) -> SourcedSuite | None:
        return None


def _read(suite_id: str, key: str) -> Package:
    row = RegisteredSuite.objects.filter(suite_id=key).first()
    if row is None:
        return _broken_package(suite_id, "the suite was removed meanwhile")
    try:
        files = unpack(bytes(row.files))
    except ArchiveRefused as refused:
        return _broken_package(suite_id, f"the stored files cannot be read: {refused.reason}")
    if content_digest(files) != row.digest:
        return _broken_package(suite_id, f"the stored files are not those of {row.digest}")
    return Package(suite_id=suite_id, files=files, origin=_ORIGIN)


def _broken_package(suite_id: str, problem: str) -> Package:
    return Package(suite_id=suite_id, files={}, problem=problem, origin=_ORIGIN)
