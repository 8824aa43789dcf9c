"""What drf-spectacular is told about the API: whose docstrings it shows, and the problems.

(reference: control-plane 1.1)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from drf_spectacular.plumbing import get_lib_doc_excludes
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView

from kernel.problems import PROBLEMS

_TEXT: Final = {"type": "string"}
_WHOLE: Final = {"type": "integer"}
_FAULT: Final = {
    "type": "object",
    "required": ["code", "detail"],
    "properties": {
        "pointer": _TEXT,
        "code": _TEXT,
        "detail": _TEXT,
        "file": _TEXT,
        "line": _WHOLE,
        "column": _WHOLE,
    },
}
_PROBLEM: Final = {
    "type": "object",
    "description": "RFC 9457; `error` equals `detail`.",
    "required": ["type", "title", "status", "detail", "instance", "code", "requestId", "error"],
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": _WHOLE,
        "detail": _TEXT,
        "instance": _TEXT,
        "code": {"type": "string", "enum": sorted(PROBLEMS)},
        "requestId": _TEXT,
        "error": _TEXT,
        "errors": {"type": "array", "items": _FAULT},
    },
}
_ANSWER: Final = {
    "description": "a problem",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def with_problems(result: dict[str, Any], **_context: Any) -> dict[str, Any]:
    """Hook of drf-spectacular: `default` is what an operation answers beside its successes."""
    result.setdefault("components", {}).setdefault("schemas", {})["Problem"] = _PROBLEM
    for operations in result["paths"].values():
        for operation in operations.values():
            operation["responses"].setdefault("default", _ANSWER)
    return result


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
