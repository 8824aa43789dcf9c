"""The description of the HTTP API, and the page that shows it."""

from __future__ import annotations

from html import escape
from typing import Final, NotRequired, TypedDict

_PROBLEM: Final = {
    "description": "The problem, as problem+json.",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
_PAGING: Final = (
    ("limit", "1 to 200, 50 unless given", "integer"),
    ("cursor", "`nextCursor` of the page before", "string"),
)


class _Operation(TypedDict):
    summary: str
    parameters: list[dict[str, object]]
    responses: dict[str, object]
    security: NotRequired[list[dict[str, list[str]]]]


def _operation(
    summary: str, schema: str, filters: str = "", *, key: bool = True, pages: bool = True
) -> _Operation:
    names = filters.split()
    parameters = [_parameter(name, "", "string") for name in names]
    parameters += [_parameter(*entry) for entry in _PAGING] if names and pages else []
    responses: dict[str, object] = {
        "200": {
            "description": summary,
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
        }
    }
    if key:
        responses |= {"401": _PROBLEM, "503": _PROBLEM}
    if names:
        responses["400"] = _PROBLEM
    made = _Operation(summary=summary, parameters=parameters, responses=responses)
    if key:
        made["security"] = [{"taskApiKey": []}]
    return made


def _parameter(name: str, description: str, kind: str) -> dict[str, object]:
    many = {"type": "array", "items": {"type": "string"}}
    schema = many if name == "state" else {"type": kind}
    made: dict[str, object] = {"name": name, "in": "query", "schema": schema}
    return made | ({"description": description} if description else {})


def _record(**members: str) -> dict[str, object]:
    """Return an object of members by their type, or by the name of their schema."""
    properties = {
        name: {"$ref": f"#/components/schemas/{kind}"} if kind[0].isupper() else {"type": kind}
        for name, kind in members.items()
    }
    return {"type": "object", "properties": properties}


def _texts(names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), "string")


def _page(name: str, item: str, *, pages: bool = True, incomplete: str = "") -> dict[str, object]:
    """Return a list; `incomplete` names the member that says what was not read."""
    items = {"type": "array", "items": {"$ref": f"#/components/schemas/{item}"}}
    properties: dict[str, object] = {name: items}
    if incomplete:
        properties[incomplete] = {"type": "boolean"}
    if pages:
        properties["nextCursor"] = {"type": "string"}
    return {"type": "object", "required": [name], "properties": properties}


_TASK_PATH = _operation("One task.", "Task")
_TASK_PATH["parameters"] = [
    {"name": "task_id", "in": "path", "required": True, "schema": {"type": "string"}}
]
_TASK_PATH["responses"] |= {"304": {"description": "Not changed."}, "404": _PROBLEM}

_OPERATIONS: Final = {
    "/v1/tasks/{task_id}": _TASK_PATH,
    "/v1/tasks": _operation(
        "Tasks, newest first.",
        "Tasks",
        "state kind platform datasource rule repo ref env commit delivery_id created_after "
        "created_before",
    ),
    "/v1/targets": _operation(
        "Targets and their status.", "Targets", "rule datasource repo env status"
    ),
    "/v1/refs/unapplied": _operation(
        "Refs of which nothing was applied yet.", "UnappliedRefs", "rule repo", pages=False
    ),
    "/v1/drift": _operation("Episodes of drift.", "Drifts", "rule datasource repo env state since"),
    "/v1/health/liveness": _operation("Alive.", "Health", key=False),
    "/v1/health/readiness": _operation("Ready.", "Health", key=False),
}
OPENAPI: Final = {
    "openapi": "3.1.0",
    "info": {"title": "Partita Orchestrator", "version": "1"},
    "paths": {path: {"get": operation} for path, operation in _OPERATIONS.items()},
    "components": {
        "securitySchemes": {"taskApiKey": {"type": "http", "scheme": "bearer"}},
        "schemas": {
            "Problem": _record(
                type="string", title="string", status="integer", detail="string", code="string"
            ),
            "Health": _record(status="string", checks="object"),
            "Task": _record(
                task_id="string",
                kind="string",
                state="string",
                message="string",
                attempt="integer",
                max_attempts="integer",
                event="object",
                events="array",
                progress="object",
                result="object",
                error="object",
                created_at="string",
                started_at="string",
                finished_at="string",
                duration_ms="integer",
                **_texts(
                    "platform datasource tenant delivery_id correlation_id bundle_digest retry_of "
                    "superseded_by approved_by next_attempt_at"
                ),
            ),
            "Target": _record(
                unit_id="string",
                rule_id="string",
                repo="string",
                env="string",
                datasource="string",
                destination="string",
                commit="string",
                ref="string",
                generation="integer",
                keys="integer",
                applied_at="string",
                last_task_id="string",
                status="string",
                stale="boolean",
                stale_since="string",
                behind="Lag",
            ),
            "Lag": _record(
                state="string",
                since="string",
                task_id="string",
                commit="string",
                code="string",
                detail="string",
                file="string",
                line="integer",
                next="string",
            ),
            "UnappliedRef": _record(
                rule_id="string", repo="string", ref="string", datasource="string", behind="Lag"
            ),
            "UnappliedRefs": _page("refs", "UnappliedRef", pages=False, incomplete="incomplete"),
            "Drift": _record(
                generation="integer",
                flapping="boolean",
                polls="integer",
                counts="object",
                changes="array",
                heal="object",
                **_texts(
                    "drift_id rule_id platform datasource kind tenant env repo ref commit "
                    "destination state first_seen_at last_seen_at resolved_at resolved_by"
                ),
            ),
            "Tasks": _page("tasks", "Task"),
            "Targets": _page("targets", "Target", incomplete="behindIncomplete"),
            "Drifts": _page("drift", "Drift"),
        },
    },
}


def _row(path: str, operation: _Operation) -> str:
    names = ", ".join(str(entry["name"]) for entry in operation["parameters"])
    cells = (f"GET {path}", operation["summary"], names)
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


DOCS_PAGE: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Partita Orchestrator</title>"
    "<style>body{font:16px sans-serif;margin:2rem}td,th{padding:.4rem 1rem;text-align:left}</style>"
    "<h1>Partita Orchestrator</h1><p>OpenAPI 3.1: <a href=/openapi.json>/openapi.json</a></p>"
    "<table><tr><th>Request<th>Response<th>Parameters"
    + "".join(_row(path, operation) for path, operation in _OPERATIONS.items())
    + "</table></html>"
).encode()
