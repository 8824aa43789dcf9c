"""Streams and the log download in the API's description: they are plain views, not REST classes."""

from __future__ import annotations

from typing import Any, Final

_RUN: Final = {
    "name": "executionId",
    "in": "path",
    "required": True,
    "schema": {"type": "string"},
}
_SINCE: Final = {
    "name": "since",
    "in": "query",
    "description": "replay records with a greater id; `Last-Event-ID` does the same",
    "schema": {"type": "integer", "minimum": 0},
}
_TOKEN: Final = {
    "name": "token",
    "in": "query",
    "description": "a stream ticket or an access token, where headers cannot be set",
    "schema": {"type": "string"},
}
_SOURCE: Final = {
    "name": "source",
    "in": "query",
    "description": "only records of this step; repeatable",
    "schema": {"type": "array", "items": {"type": "string"}},
}
_ONE_SOURCE: Final = {**_SOURCE, "description": "only this step", "schema": {"type": "string"}}
_FORMAT: Final = {
    "name": "format",
    "in": "query",
    "schema": {"type": "string", "enum": ["txt", "ndjson"], "default": "txt"},
}
_WORKSPACE: Final = {
    "name": "workspaceId",
    "in": "query",
    "description": "administrators only: one workspace instead of all",
    "schema": {"type": "string", "format": "uuid"},
}
_SSE: Final = {"text/event-stream": {"schema": {"type": "string"}}}
_FILE: Final = {
    "text/plain": {"schema": {"type": "string"}},
    "application/x-ndjson": {"schema": {"type": "string"}},
}


def _operation(
    operation_id: str, summary: str, parameters: list[dict[str, Any]], content: dict[str, Any]
) -> dict[str, Any]:
    return {
        "get": {
            "operationId": operation_id,
            "summary": summary,
            "tags": [operation_id.split("_", maxsplit=1)[0]],
            "parameters": parameters,
            "security": [{"bearer": []}, {"session": []}],
            "responses": {"200": {"description": summary, "content": content}},
        }
    }


_PATHS: Final = {
    "/api/v1/executions/{executionId}/events": _operation(
        "executions_events", "What happens in a run, as SSE.", [_RUN, _SINCE, _TOKEN], _SSE
    ),
    "/api/v1/executions/{executionId}/logs": _operation(
        "executions_logs", "A run's log lines, as SSE.", [_RUN, _SINCE, _SOURCE, _TOKEN], _SSE
    ),
    "/api/v1/executions/{executionId}/logs/download": _operation(
        "executions_logs_download", "A run's log as a file.", [_RUN, _FORMAT, _ONE_SOURCE], _FILE
    ),
    "/api/v1/engine/overview/stream": _operation(
        "engine_overview_stream", "The overview whenever it changed.", [_WORKSPACE, _TOKEN], _SSE
    ),
}


def with_streams(result: dict[str, Any], **_context: Any) -> dict[str, Any]:
    """Hook of drf-spectacular; runs before the one that adds problems."""
    schemes = set(result.get("components", {}).get("securitySchemes", {}))
    for path, operation in _PATHS.items():
        security = [entry for entry in operation["get"]["security"] if set(entry) <= schemes]
        result["paths"][path] = {"get": {**operation["get"], "security": security}}
    return result
