"""Fill Snapshot.archive_sha256 from the stored documents; remove archives that nothing names.

Releases before 0004 removed snapshots without their archives. Each row is a transaction of its own,
so runs go on meanwhile; a repeat goes on where it was interrupted.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from django.db import migrations
from django.db.migrations.operations.base import Operation

_BATCH: Final = 100


def name_archives(apps: Any, schema_editor: Any) -> None:
    snapshots = _rows(apps, schema_editor, "Snapshot")
    unnamed = snapshots.filter(archive_sha256=None).order_by("pk")
    while batch := list(unnamed.values_list("pk", "document")[:_BATCH]):
        for pk, document in batch:
            contents = json.loads(zlib.decompress(document))["contents"].values()
            digest = next((content["digest"] for content in contents), "")
            snapshots.filter(pk=pk).update(archive_sha256=digest.removeprefix("sha256:"))


def remove_unnamed_bytes(apps: Any, schema_editor: Any) -> None:
    blobs = _rows(apps, schema_editor, "Blob")
    artifacts = _rows(apps, schema_editor, "Artifact")
    snapshots = _rows(apps, schema_editor, "Snapshot")
    for batch in _batches(blobs.filter(used_at=None), "sha256"):
        named = {
            *artifacts.filter(sha256__in=batch).values_list("sha256", flat=True),
            *snapshots.filter(archive_sha256__in=batch).values_list("archive_sha256", flat=True),
        }
        blobs.filter(sha256__in=set(batch) - named, used_at=None).delete()


def _rows(apps: Any, schema_editor: Any, model: str) -> Any:
    return apps.get_model("executions", model).objects.using(schema_editor.connection.alias)


def _batches(rows: Any, field: str) -> Iterator[list[str]]:
    """Yield the values of a unique field, ascending."""
    last = ""
    while batch := list(
        rows.filter(**{f"{field}__gt": last}).order_by(field).values_list(field, flat=True)[:_BATCH]
    ):
        yield batch
        last = batch[-1]


class Migration(migrations.Migration):
    atomic = False

    dependencies: ClassVar = [("executions", "0004_snapshot_archive")]

    operations: ClassVar[list[Operation]] = [
        migrations.RunPython(name_archives, migrations.RunPython.noop),
        migrations.RunPython(remove_unnamed_bytes, migrations.RunPython.noop),
    ]
