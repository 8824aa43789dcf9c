"""The two ways to write: insert what must not be there yet, change what is still as it was."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db import IntegrityError, models

Row = TypeVar("Row", bound=models.Model)


def inserted(*rows: models.Model) -> bool:
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


def changed(model: type[models.Model], where: dict[str, Any], /, **fields: Any) -> bool:
    """Whether a row was as `where` says; it is now as `fields` say."""
    return bool(model._default_manager.filter(**where).update(**fields))  # noqa: SLF001


def found(model: type[Row], /, **where: Any) -> Row | None:
    """The only row that is so."""
    return model._default_manager.filter(**where).first()  # noqa: SLF001
