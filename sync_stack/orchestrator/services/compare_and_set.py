"""The two conditional writes: insert a row that must not exist, update one that has not changed."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, models


def insert_if_absent(*rows: models.Model) -> bool:
    """False when a unique key of one of them is taken; then nothing was written.

    MongoDB, which inserts one after another, keeps those that came before that one.
    """
    try:
        if len(rows) == 1:
            rows[0].save(force_insert=True)
        elif rows:
            type(rows[0])._default_manager.bulk_create(rows)  # noqa: SLF001 - Django's name for it
    except IntegrityError:
        return False
    return True


def update_if_unchanged(model: type[models.Model], where: dict[str, Any], /, **fields: Any) -> bool:
    """Whether a row was as `where` says; it is now as `fields` say."""
    return bool(model._default_manager.filter(**where).update(**fields))  # noqa: SLF001
