"""Problems in the API's description: every operation may answer one.

(reference: control-plane 1.1)
"""

from __future__ import annotations

from typing import Any, Final

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
