"""Errors of the libraries below as errors of the task; each once, here."""

from __future__ import annotations

from typing import Any, Final

from django.db import Error as StoreError

from kernel.redaction import known_secrets
from sync_stack.configuration.secrets import SecretAbsent, SecretError
from sync_stack.core.ownership import PlanRefused
from sync_stack.core.shaping import ShapingError
from sync_stack.core.sink import SinkError
from sync_stack.core.tasks import TaskError
from sync_stack.repositories import GitError

KNOWN_ERRORS: Final = (TaskError, GitError, SinkError, ShapingError, PlanRefused, SecretError)


def task_error(error: Exception) -> TaskError:
    """The fact behind an error, masked; anything unforeseen is `internal_error`."""
    match error:
        case TaskError():
            found = error
        case ShapingError():
            found = _of_shaping(error)
        case SinkError():
            found = _told(error.code, error.detail, retry_after_s=error.retry_after_s)
        case PlanRefused():
            found = _told(error.code, error.detail, keys=error.keys)
        case GitError():
            found = _told(
                error.code, error.detail, file=error.file, retry_after_s=error.retry_after_s
            )
        case SecretError():
            is_absent = isinstance(error, SecretAbsent)
            found = _told("secret_unavailable", str(error), retryable=not is_absent)
        case StoreError():
            found = TaskError("store_unavailable", type(error).__name__)
        case _:
            found = TaskError("internal_error", type(error).__name__)
    return found


def _told(code: str, detail: str, **facts: Any) -> TaskError:
    return TaskError(code, known_secrets.mask(detail), **facts)


def _of_shaping(error: ShapingError) -> TaskError:
    return TaskError(
        error.code,
        known_secrets.mask(error.detail),
        file=error.file,
        line=error.line,
        column=error.column,
        retryable=error.retryable,
    )
