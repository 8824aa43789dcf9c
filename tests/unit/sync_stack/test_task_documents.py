"""The JSON of task rows: every member and its order, as the releases before wrote it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.domain.task_documents import (
    StoredError,
    TaskMemory,
    TaskRequest,
    TaskResult,
)

EVENT = (
    '{"platform": "github", "event": "push", "repo": "acme/shop", "clone_url": "file:///shop",'
    ' "ref": "refs/heads/main", "branch": "main", "commit": "c0ffee0", "files": ["app.yaml"]}'
)
REQUESTS = [
    f'{{"events": [{EVENT}], "rules": []}}',
    f'{{"events": [{EVENT}], "rules": ["shop"], "heal": {{"env": "production",'
    ' "destination_id": "d1", "generation": 0, "ref": "", "commit": "c0ffee0"}}',
    f'{{"events": [{EVENT}], "rules": ["shop"], "approved": {{"d1:production": ["b", "c"]}}}}',
    f'{{"events": [{EVENT}], "rules": ["shop"], "dry_run": true}}',
    '{"events": [], "rules": ["shop"], "purge": "u1"}',
]
ERROR = (
    '{"code": "parse_error", "detail": "no YAML", "retryable": false, "file": "app.yaml",'
    ' "line": 3, "column": 1}'
)
_PLACE = '"rule_id": "shop", "repo": "acme/shop", "ref": "refs/heads/main", '
_TAIL = (
    '"env": "production", "datasource": "sink", "destination": "hash", "commit": "c0ffee0",'
    ' "generation": 1, "sync_mode": "AUTO", "outcome": "%s", "written": %d, "pruned": 0,'
    ' "unchanged": 0, "restored": 0, "adopted": 0, "would_prune": %s, "stale": false,'
    ' "warnings": ["w"], '
)
APPLIED = (
    f'{{"unit_id": "u1", "destination_id": "d1", "committed": true, {_PLACE}'
    f'{_TAIL % ("applied", 2, "[]")}"released": []}}'
)
STOPPED = (
    f'{{"unit_id": "u1", "destination_id": "d1", "committed": false, {_PLACE}'
    f'{_TAIL % ("failed", 0, json.dumps(["b", "c"]))}"error": {ERROR}}}'
)
UNPLACED = (
    '{"unit_id": "", "destination_id": "", "committed": false, "generation": 0, '
    f'{_PLACE}"datasource": "sink", "sync_mode": "AUTO", "outcome": "failed", "error": {ERROR}}}'
)
FILES = (
    '[{"file": "app.yaml", "env": "production", "format": "yaml", "keys": 2,'
    ' "validation": "none", "status": "ok"}, {"file": "b.yaml", "env": "production", "keys": 0,'
    ' "validation": "none", "status": "missing"}, {"file": "app.yaml", "keys": 0,'
    ' "validation": "none", "status": "error"}]'
)
MEMORY = (
    f'{{"done": {{"0:shop": {{"message": "completed", "targets": [{APPLIED}], "files": {FILES},'
    ' "error": null, "commit": "c0ffee0", "rule_digest": "r1"}, "0:other": {"message":'
    f' "parse_error", "targets": [{UNPLACED}], "files": [], "error": {ERROR}, "commit": ""}}}},'
    ' "lags": 2}'
)
RESULT = (
    '{"written": 2, "pruned": 0, "unchanged": 0, "restored": 0, "adopted": 0,'
    f' "files": {FILES}, "targets": [{APPLIED}, {STOPPED}, {UNPLACED}]}}'
)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        *((TaskRequest, text) for text in REQUESTS),
        (TaskMemory, MEMORY),
        (TaskResult, RESULT),
    ],
)
def test_what_is_read_from_a_row_is_written_as_it_was(document: Any, text: str):
    found = document.of(json.loads(text))

    assert json.dumps(found.as_json()) == text


def test_an_empty_row_is_read():
    assert TaskRequest.of({}).is_plain
    assert TaskMemory.of({}).done == {}
    assert TaskResult.of({}).targets == ()


def test_the_totals_are_sums_over_the_targets_of_all_outcomes():
    outcomes = TaskMemory.of(json.loads(MEMORY)).done.values()

    result = TaskResult.of_outcomes(outcomes)

    assert (result.written, len(result.targets), len(result.files)) == (2, 2, 3)


def test_a_stored_error_is_the_error_again():
    error = TaskError("parse_error", "no YAML", file="app.yaml", line=3, column=1)

    again = StoredError.of(error).as_error()

    assert again.as_dict() == error.as_dict() == json.loads(ERROR)
