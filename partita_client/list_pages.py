"""Lists of a server that come in pages, each with the cursor of the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

PAGE_SIZE: Final = 200
AskPage = Callable[[int, str], Any]  # how many entries, and from which cursor


def read_pages(ask: AskPage, name: str, *, limit: int = 0) -> Iterator[Any]:
    """Yield the documents that have the entries of a list as `name`, as many as the limit needs.

    A page without entries, or one that leads to itself, is the last one.
    """
    left, cursor = limit, ""
    while True:
        page = ask(min(left, PAGE_SIZE) if limit else PAGE_SIZE, cursor)
        yield page
        left -= len(page[name])
        former, cursor = cursor, page.get("nextCursor", "")
        if not page[name] or cursor in ("", former) or (limit and left <= 0):
            return


def read_entries(ask: AskPage, name: str, *, limit: int = 0) -> Iterator[Any]:
    """Yield the entries of a list over its pages; at most `limit` unless that is 0."""
    pages = read_pages(ask, name, limit=limit)
    yield from islice((entry for page in pages for entry in page[name]), limit or None)
