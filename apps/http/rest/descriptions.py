"""Which docstrings the API's description shows: an operation's or a body's own, never a base's."""

from __future__ import annotations

from collections.abc import Iterator

from drf_spectacular.plumbing import get_lib_doc_excludes
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView


def classes_without_words() -> list[type]:
    """For drf-spectacular: the library's classes, and every class of ours that others derive from.

    What those say is for programmers. Looked up each time: classes come with the routes.
    """
    ours = (*_descendants(APIView), *_descendants(BaseSerializer))
    theirs: list[type] = get_lib_doc_excludes()  # type: ignore[no-untyped-call]
    return theirs + [each for each in ours if each.__subclasses__()]


def _descendants(kind: type) -> Iterator[type]:
    for child in kind.__subclasses__():
        yield child
        yield from _descendants(child)
