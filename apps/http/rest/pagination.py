"""Key-set paging: a cursor holds the sort key of the last entry, bound to its route and filters."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from django.core import signing
from django.db.models import QuerySet
from rest_framework.request import Request

from apps.http.keyset import Row, rows_after
from apps.http.rest.strict import integer_parameter
from kernel.errors import PlatformError

T = TypeVar("T")

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 200


class InvalidCursor(PlatformError):
    code = "invalid_cursor"


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """At most `limit` entries; `next_cursor` is None at the end of the list."""

    items: list[T]
    next_cursor: str | None

    def as_dict(self, name: str, items: Sequence[object], **more: object) -> dict[str, object]:
        """`{name: items, **more, nextCursor?}`; `items` is the wire form of `self.items`."""
        cursor = {} if self.next_cursor is None else {"nextCursor": self.next_cursor}
        return {name: list(items), **more, **cursor}


def paginate(
    request: Request,
    entries: Iterable[T],
    *,
    key: Callable[[T], Sequence[Any]],
    descending: bool = False,
) -> Page[T]:
    """One page of entries in memory, sorted by `key`.

    `key` gives text, numbers or times and is unique over the entries (end it with the id).
    Raises InvalidParameter for `limit` and InvalidCursor.
    """
    limit, after = requested_page(request)
    ordered = sorted(entries, key=lambda entry: tuple(key(entry)), reverse=descending)
    if after is not None:
        ordered = [entry for entry in ordered if _is_beyond(key(entry), after, descending)]
    return _page(request, ordered[: limit + 1], limit, key)


def paginate_queryset(
    request: Request, queryset: QuerySet[Row], *, order: Sequence[str]
) -> Page[Row]:
    """One page of rows in `order`, as for `order_by` (`"-accepted_at", "-id"`), the last unique.

    Raises InvalidParameter for `limit` and InvalidCursor.
    """
    limit, after = requested_page(request)
    if after is not None and len(after) != len(order):
        raise InvalidCursor("the cursor does not belong to this list")
    names = [name.removeprefix("-") for name in order]
    rows = rows_after(after, queryset, order, limit=limit + 1)
    return _page(request, rows, limit, lambda row: [getattr(row, name) for name in names])


def requested_page(request: Request) -> tuple[int, list[Any] | None]:
    """`limit` and the key in `cursor`, for lists that page by themselves.

    Raises InvalidParameter, InvalidCursor.
    """
    limit = integer_parameter(request, "limit", default=DEFAULT_LIMIT, low=1, high=MAX_LIMIT)
    text = request.query_params.get("cursor")
    return limit, None if text is None else _read_cursor(request, text)


def _page(
    request: Request, found: list[T], limit: int, key: Callable[[T], Sequence[Any]]
) -> Page[T]:
    items = found[:limit]
    more = len(found) > limit
    return Page(items, write_cursor(request, key(items[-1])) if more else None)


def _is_beyond(key: Sequence[Any], after: Sequence[Any], descending: bool) -> bool:  # noqa: FBT001
    try:
        return tuple(key) < tuple(after) if descending else tuple(key) > tuple(after)
    except TypeError:
        raise InvalidCursor("the cursor does not belong to this list") from None


def _signer() -> signing.Signer:
    return signing.Signer(salt="partita.cursor", sep=".")


def write_cursor(request: Request, key: Sequence[Any]) -> str:
    """The cursor that `requested_page` reads back, for this path and these filters only."""
    return _signer().sign_object([_binding(request), [_encode(part) for part in key]])


def _read_cursor(request: Request, text: str) -> list[Any]:
    try:
        binding, key = _signer().unsign_object(text)
    except (signing.BadSignature, ValueError):
        raise InvalidCursor("the cursor was not made by this server") from None
    if binding != _binding(request):
        raise InvalidCursor("the cursor belongs to another list or filter")
    return [_decode(part) for part in key]


def _binding(request: Request) -> str:
    """A digest of path and filters; `limit` may change from page to page."""
    filters = sorted(
        (name, values)
        for name, values in request.query_params.lists()
        if name not in ("cursor", "limit")
    )
    text = json.dumps([request.path, filters])
    return hashlib.blake2b(text.encode(), digest_size=9).hexdigest()


def _encode(part: Any) -> Any:
    if isinstance(part, datetime):
        return {"time": part.isoformat()}
    return {"uuid": str(part)} if isinstance(part, UUID) else part


def _decode(part: Any) -> Any:
    if isinstance(part, dict):
        return UUID(part["uuid"]) if "uuid" in part else datetime.fromisoformat(part["time"])
    return part
