"""Snapshot.archive_sha256 names the suite's archive; used_at of snapshots and bytes."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models
from django.db.migrations.operations.base import Operation


class Migration(migrations.Migration):
    dependencies: ClassVar = [("executions", "0003_parent_span_default")]

    operations: ClassVar[list[Operation]] = [
        migrations.AddField(
            model_name="snapshot",
            name="archive_sha256",
            field=models.CharField(blank=True, max_length=64, null=True),
        ),
        migrations.AddField(
            model_name="snapshot",
            name="used_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="blob",
            name="used_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddIndex(
            model_name="snapshot",
            index=models.Index(fields=["archive_sha256"], name="snapshot_by_archive"),
        ),
    ]
