"""Errors of an attempt, as its task keeps and logs them."""

from __future__ import annotations

import json

import pytest

from kernel.redaction import known_secrets
from sync_stack.configuration.secrets import SecretUnavailable
from sync_stack.core.file_errors import ShapingError
from sync_stack.core.ownership import PlanRefused
from sync_stack.core.sink import SinkError
from sync_stack.orchestrator.models import Task
from sync_stack.repositories import GitError

pytestmark = pytest.mark.store
SECRET = "hunter2-hunter2"
TEXT = f"the other side said {SECRET}"


@pytest.mark.parametrize(
    "error",
    [
        SinkError("sink_auth", TEXT),
        GitError("git_auth", TEXT),
        PlanRefused("ownership_conflict", TEXT),
        ShapingError("schema_invalid", TEXT),
        SecretUnavailable(TEXT),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_quotes_a_secret_is_kept_and_logged_without_it(world, caplog, error):
    """Sync invariant 24."""
    known_secrets.add(SECRET)

    def fail(*_arguments: object) -> None:
        raise error

    world.sink.read = fail
    task = world.run(world.commit_and_push({"app.yaml": "a: 1\n"}))

    row = Task.objects.filter(id=task.id).values().get()
    assert task.error["detail"] == "the other side said ***"
    assert SECRET not in json.dumps(row, default=str)
    assert SECRET not in caplog.text
