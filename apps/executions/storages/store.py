"""Artifacts in the primary store: a row of bytes by their SHA-256, which is their name.

Called within the transaction of what names the bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from django.db.models import QuerySet

from apps.executions.domain.artifact_storage import ArtifactLost
from apps.executions.models import Artifact, Blob, Snapshot, StepRepeat
from kernel import clock


class StoreStorage:
    def write(self, name: str, body: bytes) -> None:
        """Store bytes under their digest, or use the row of equal bytes."""
        if not use(Blob.objects.filter(sha256=name)):
            Blob.objects.create(sha256=name, size=len(body), data=body)

    def read(self, name: str) -> Iterator[bytes]:
        data = Blob.objects.filter(sha256=name).values_list("data", flat=True).first()
        if data is None:
            raise ArtifactLost
        yield bytes(data)

    def remove(self, name: str) -> None:
        """Remove bytes unless something names them."""
        self.remove_unused({name})

    def remove_unused(self, names: Collection[str]) -> None:
        """Remove the bytes that no artifact, snapshot or repeat names any longer.

        A launch or an upload that needs the same bytes conflicts with it: both change `used_at`.
        """
        use(Blob.objects.filter(sha256__in=names))
        artifacts = Artifact.objects.filter(
            sha256__in=names, expired_at=None, stored_object__isnull=True
        )
        archives = Snapshot.objects.filter(archive_sha256__in=names)
        contents = StepRepeat.objects.filter(content_sha256__in=names)
        named = {
            *artifacts.values_list("sha256", flat=True),
            *archives.values_list("archive_sha256", flat=True),
            *contents.values_list("content_sha256", flat=True),
        }
        Blob.objects.filter(sha256__in=set(names) - named).delete()

    def check(self) -> None:
        """Do nothing: the store has a check of its own."""


def use(rows: QuerySet[Any, Any], **changes: object) -> int:
    """Change `used_at` of the rows; return how many there are."""
    return rows.update(used_at=clock.now(), **changes)
