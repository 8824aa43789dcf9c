"""LedgerTarget and DestinationLock: new names of two models, whose tables keep theirs."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations
from django.db.migrations.operations.base import Operation


class Migration(migrations.Migration):
    dependencies: ClassVar = [("sync", "0004_ledger_lookups")]

    operations: ClassVar[list[Operation]] = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameModel("LedgerUnit", "LedgerTarget"),
                migrations.AlterModelTable("ledgertarget", "sync_ledgerunit"),
                migrations.RenameModel("Lease", "DestinationLock"),
                migrations.AlterModelTable("destinationlock", "sync_lease"),
            ],
        ),
    ]
