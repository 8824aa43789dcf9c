"""A process of an earlier version on the same store: it does not know the newer columns."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import connection
from django.db.models import Model


def stored_by_older(template: Model, newer: set[str], **fresh: Any) -> uuid.UUID:
    """Insert a copy of the row, naming only the columns that the older process knows.

    `newer`: columns it does not know; `fresh`: column → value of the copy. Returns its key.
    """
    key = uuid.uuid4()
    fresh["id"] = key if connection.vendor == "postgresql" else key.hex
    columns = sorted({str(each.column) for each in template._meta.concrete_fields} - newer)
    names = ", ".join(f'"{name}"' for name in columns)
    values = ", ".join("%s" if name in fresh else f'"{name}"' for name in columns)
    given = [fresh[name] for name in columns if name in fresh]
    table = template._meta.db_table
    template_key = template.pk if connection.vendor == "postgresql" else template.pk.hex
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({names}) SELECT {values} FROM {table} WHERE id = %s",
            [*given, template_key],
        )
    return key
