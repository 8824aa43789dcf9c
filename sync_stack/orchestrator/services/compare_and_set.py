"""The two conditional writes: insert a row that must not exist, update one that has not changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, models


def insert_if_absent(*rows: models.Model) -> bool:
    """Insert rows; return False if a unique key of one of them is taken.

    Then nothing was written, except in MongoDB: it keeps the rows before that one.
    """
    try:
        if len(rows) == 1:
            rows[0].save(force_insert=True)
        elif rows:
            type(rows[0])._default_manager.bulk_create(rows)  # noqa: SLF001 - Django's name for it
    except IntegrityError:
        return False
    return True


def update_if_unchanged(
    model: type[models.Model], where: Mapping[str, object], /, **fields: Any
) -> bool:
    """Set `fields` of the row that is as `where` says; return whether there was one."""
    return bool(model._default_manager.filter(**where).update(**fields))  # noqa: SLF001
