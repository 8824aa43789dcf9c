"""Pages of rows that begin after a key, for lists of the API and for pages (key-set paging)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from django.db.models import Model, Q, QuerySet

Row = TypeVar("Row", bound=Model)


def rows_after(
    key: Sequence[Any] | None, rows: QuerySet[Row], order: Sequence[str], *, limit: int
) -> list[Row]:
    """Return the first rows in `order` whose fields come after `key`; without a key the first.

    `order` is as for `order_by` (`"-accepted_at", "-id"`), and its last field is unique. `key` has
    a value for each field.
    """
    if key is not None:
        rows = rows.filter(_beyond(order, key))
    return list(rows.order_by(*order)[:limit])


def _beyond(order: Sequence[str], key: Sequence[Any]) -> Q:
    """Rows after the tuple `key`: first field beyond, or equal and the next beyond, and so on."""
    condition, equal = Q(), Q()
    for name, value in zip(order, key, strict=True):
        field = name.removeprefix("-")
        beyond = "lt" if name.startswith("-") else "gt"
        condition |= equal & Q(**{f"{field}__{beyond}": value})
        equal &= Q(**{field: value})
    return condition
