"""The real parts that a test asks for: skipped with a reason, or a failure where CI runs."""

from __future__ import annotations

import os

import pytest


def address(variable: str) -> str:
    """The address of a part that `make test` started; empty when it did not."""
    return os.environ.get(variable, "")


def need(variable: str, what: str) -> str:
    """The same; without it the test is skipped, or fails when CI is set."""
    if found := address(variable):
        return found
    sentence = f"needs {what}: {variable} is not set (run `make test`)"
    if os.environ.get("CI"):
        pytest.fail(sentence)
    pytest.skip(sentence)
