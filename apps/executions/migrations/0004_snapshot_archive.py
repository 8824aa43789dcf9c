"""Snapshot.archive_sha256: the digest of the suite's archive, read out of the stored document."""

from __future__ import annotations

import json
import zlib
from typing import Any, ClassVar, Final

from django.db import migrations, models
from django.db.migrations.operations.base import Operation

_BATCH: Final = 100


def name_archives(apps: Any, schema_editor: Any) -> None:
    """Fill the column in small batches; it can be repeated where it was interrupted."""
    snapshots = apps.get_model("executions", "Snapshot").objects.using(
        schema_editor.connection.alias
    )
    unnamed = snapshots.filter(archive_sha256=None).order_by("pk")
    while batch := list(unnamed.values_list("pk", "document")[:_BATCH]):
        for pk, document in batch:
            contents = json.loads(zlib.decompress(document))["contents"].values()
            digest = next((content["digest"] for content in contents), "")
            snapshots.filter(pk=pk).update(archive_sha256=digest.removeprefix("sha256:"))


class Migration(migrations.Migration):
    dependencies: ClassVar = [("executions", "0003_parent_span_default")]

    operations: ClassVar[list[Operation]] = [
        migrations.AddField(
            model_name="snapshot",
            name="archive_sha256",
            field=models.CharField(blank=True, max_length=64, null=True),
        ),
        migrations.AddIndex(
            model_name="snapshot",
            index=models.Index(fields=["archive_sha256"], name="snapshot_by_archive"),
        ),
        migrations.RunPython(name_archives, migrations.RunPython.noop),
    ]
