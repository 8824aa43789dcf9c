"""Each member of an answer is in the API's description: schemas and views are one truth."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.apps.executions_rest.conftest import (
    Caller,
    make_artifact,
    make_run,
    write_event,
    write_lines,
)

BODIES = {
    "auth/config": "auth/config",
    "auth/me": "auth/me",
    "auth/sso/providers": "auth/sso/providers",
    "executions": "executions",
    "executions/launch-suites": "executions/launch-suites",
    "executions/resolve-ref": "executions/resolve-ref?ref=hello",
    "executions/{executionId}": "executions/{run_id}",
    "executions/{executionId}/since-green": "executions/{run_id}/since-green",
    "executions/{executionId}/timeline": "executions/{run_id}/timeline",
    "executions/{executionId}/logs/at": "executions/{run_id}/logs/at?ms=0",
    "engine/overview": "engine/overview",
    "suites": "suites",
    "suites/{suite_id}": "suites/hello",
}
OPEN = {"ResolvedNode"}  # its further members depend on its kind


@pytest.fixture
def document(admin: Caller) -> dict[str, Any]:
    """The description, in which no object may have members beside the described ones."""
    described: dict[str, Any] = admin.get("schema").json()
    for name, schema in described["components"]["schemas"].items():
        if "properties" in schema and name not in OPEN:
            schema.setdefault("additionalProperties", False)
    return described


@pytest.fixture
def run_id(ada: Caller) -> str:
    """A run whose answers have nearly every optional member."""
    row = make_run(ada.workspace_id, statuses=["healthy", "failed", "skipped"], status="Failed")
    row.steps.filter(index=2).update(reason="exit_nonzero", exit_code=3, detail="exit code 3")
    write_event(row.run_id, "seed", "failed", "failed")
    write_lines(row.run_id, "seed", ["one", "two"])
    make_artifact(row, b"report")
    return row.run_id


def test_answers_have_only_described_members(
    document: dict[str, Any], ada: Caller, run_id: str, subtests: pytest.Subtests
) -> None:
    for template, path in BODIES.items():
        with subtests.test(template):
            answer = ada.get(path.format(run_id=run_id))

            assert answer.status_code == 200, answer.content
            responses = document["paths"][f"/api/v1/{template}"]["get"]["responses"]
            schema = responses["200"]["content"]["application/json"]["schema"]
            whole = schema | {"components": document["components"]}
            errors = Draft202012Validator(whole).iter_errors(answer.json())
            assert [f"{error.json_path}: {error.message}" for error in errors] == []
